//! A policy of 50 terms as data, and its text in both languages.

use sluice_base::IpPrefix;
use std::fmt::Write;

/// Entries of the prefix list.
pub const ENTRIES: usize = 10_000;
/// Communities in all sets together.
pub const COMMUNITIES: usize = 500;
/// Communities of a set.
const SET: usize = 20;
/// AS-path expressions: an AS of the first range, and later an AS of the second one.
const PATHS: [[(u32, u32); 2]; 5] = [
    [(1, 4_000), (10_000, 30_000)],
    [(3_000, 9_000), (1, 9_000)],
    [(20_000, 40_000), (30_000, 65_000)],
    [(100, 3_400), (200_000, 400_000)],
    [(6_000, 7_000), (40_000, 65_000)],
];
/// Terms before the last one.
const TERMS: usize = 49;
/// Policies with the same conditions and other values.
const VARIANTS: [u32; 2] = [0, 1];

/// The lists that policies name.
pub struct Lists {
    /// Entries of the prefix list; every second one includes longer prefixes.
    prefixes: Vec<IpPrefix>,
    /// Sets of communities.
    communities: Vec<Vec<(u16, u16)>>,
}

/// A condition of a term.
enum Condition {
    List,
    Communities(usize),
    Path(usize),
    PathLength(u32, u32),
}

/// The action of a term.
enum Action {
    Preference(u32),
    Med(u32),
    Community(u32),
}

/// Returns the conditions and the action of a term. `variant` changes the values, not the work.
fn term(number: usize, variant: u32) -> (Vec<Condition>, Action) {
    let set = number % (COMMUNITIES / SET);
    let value = 100 + number as u32 + 1000 * variant;
    match number % 5 {
        0 => (vec![Condition::List, Condition::Communities(set)], Action::Preference(value)),
        1 => (vec![Condition::Communities(set)], Action::Community(value)),
        2 => (vec![Condition::Path(number / 5 % PATHS.len())], Action::Med(value)),
        3 => (vec![Condition::List, Condition::PathLength(3, 4)], Action::Preference(value)),
        _ => (vec![Condition::Communities(set), Condition::PathLength(4, 9)], Action::Med(value)),
    }
}

impl Lists {
    /// Takes entries from the announced prefixes, evenly spread, and communities of [`community`].
    pub fn new(prefixes: impl Iterator<Item = IpPrefix>) -> Self {
        let v4: Vec<IpPrefix> = prefixes.filter(|prefix| matches!(prefix, IpPrefix::V4(_))).collect();
        let step = (v4.len() / ENTRIES).max(1);
        let communities = (0..COMMUNITIES).map(community).collect::<Vec<_>>();
        Lists {
            prefixes: v4.into_iter().step_by(step).take(ENTRIES).collect(),
            communities: communities.chunks(SET).map(<[_]>::to_vec).collect(),
        }
    }

    /// Returns our subtree `policy`, with the policies `everything`, `p0`, `p1`, and `p0-again` of the same meaning as `p0`.
    pub fn sluice(&self) -> String {
        let mut text = "policy {\npolicy-statement everything { term all { then { accept; } } }\n".to_owned();
        let entries = self.prefixes.iter().enumerate().map(|(number, prefix)| {
            if number % 2 == 0 { format!("{prefix} ") } else { format!("\"{prefix} orlonger\" ") }
        });
        say(&mut text, format_args!("prefix-list big {{ prefix [ {}]; }}", entries.collect::<String>()));
        for (number, set) in self.communities.iter().enumerate() {
            let members = set.iter().map(|(high, low)| format!("{high}:{low} ")).collect::<String>();
            say(&mut text, format_args!("community c{number} {{ member [ {members}]; }}"));
        }
        for (number, [(a, b), (c, d)]) in PATHS.iter().enumerate() {
            say(&mut text, format_args!("as-path a{number} {{ expression \".* {a}-{b} .* {c}-{d} .*\"; }}"));
        }
        for (variant, number) in VARIANTS.iter().flat_map(|variant| (0..TERMS).map(move |n| (variant, n))) {
            if let Action::Community(value) = term(number, *variant).1 {
                say(&mut text, format_args!("community v{value} {{ member 64500:{value}; }}"));
            }
        }
        for (name, variant) in [("p0", 0), ("p1", 1), ("p0-again", 0)] {
            say(&mut text, format_args!("policy-statement {name} {{"));
            for number in 0..TERMS {
                let (conditions, action) = term(number, variant);
                let from = conditions.iter().map(Condition::sluice).collect::<String>();
                let then = action.sluice();
                say(&mut text, format_args!("term {number} {{ from {{ {from}}} then {{ {then} }} }}"));
            }
            say(&mut text, format_args!("term last {{ then {{ accept; }} }} }}"));
        }
        text + "}\n"
    }

    /// Returns BIRD's filters `everything`, `p0` and `p1`.
    pub fn bird(&self) -> String {
        let mut text = "filter everything { accept; }\n".to_owned();
        let entries =
            self.prefixes.iter().enumerate().map(|(number, prefix)| {
                if number % 2 == 0 { prefix.to_string() } else { format!("{prefix}+") }
            });
        say(&mut text, format_args!("define big = [ {} ];", entries.collect::<Vec<_>>().join(", ")));
        for (number, set) in self.communities.iter().enumerate() {
            let members = set.iter().map(|(high, low)| format!("({high}, {low})")).collect::<Vec<_>>();
            say(&mut text, format_args!("define c{number} = [ {} ];", members.join(", ")));
        }
        for variant in VARIANTS {
            say(&mut text, format_args!("filter p{variant} {{"));
            for number in 0..TERMS {
                let (conditions, action) = term(number, variant);
                let all = conditions.iter().map(Condition::bird).collect::<Vec<_>>().join(" && ");
                say(&mut text, format_args!("if {all} then {}", action.bird()));
            }
            say(&mut text, format_args!("accept; }}"));
        }
        text
    }
}

/// Returns a community of the sets; routes carry some of them.
pub fn community(number: usize) -> (u16, u16) {
    (3000 + (number / 10) as u16, (number % 10) as u16)
}

fn say(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

impl Condition {
    fn sluice(&self) -> String {
        match self {
            Condition::List => "prefix-list big; ".into(),
            Condition::Communities(set) => format!("community c{set}; "),
            Condition::Path(path) => format!("as-path a{path}; "),
            Condition::PathLength(least, most) => format!("as-path-length {least}-{most}; "),
        }
    }

    fn bird(&self) -> String {
        match self {
            Condition::List => "net ~ big".into(),
            Condition::Communities(set) => format!("bgp_community ~ c{set}"),
            Condition::Path(path) => {
                let [(a, b), (c, d)] = PATHS[*path];
                format!("bgp_path ~ [= * [{a}..{b}] * [{c}..{d}] * =]")
            }
            Condition::PathLength(least, most) => {
                format!("bgp_path.len >= {least} && bgp_path.len <= {most}")
            }
        }
    }
}

impl Action {
    fn sluice(&self) -> String {
        match self {
            Action::Preference(value) => format!("local-preference {value};"),
            Action::Med(value) => format!("med {value};"),
            Action::Community(value) => format!("community-add v{value};"),
        }
    }

    fn bird(&self) -> String {
        match self {
            Action::Preference(value) => format!("bgp_local_pref = {value};"),
            Action::Med(value) => format!("bgp_med = {value};"),
            Action::Community(value) => format!("bgp_community.add((64500, {value}));"),
        }
    }
}
