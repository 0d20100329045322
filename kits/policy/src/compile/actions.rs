//! Actions of terms: a row and a function each. The actions of a term take effect in the order of the rows; changes of
//! variables come first.

use super::conditions::name_of;
use super::{Compiler, unknown};
use crate::error::{PolicyError, shown};
use crate::limits::MOST_PREPENDED;
use crate::program::{Change, CommunitySets, Index, Instruction, NextHop, Place};
use crate::source::{NO_DAMPING, Named, Values};
use crate::vocabulary::{Type, Variable, VariableId, find};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;
use sluice_base::Asn;
use smallvec::{SmallVec, smallvec};

/// The changes of an action: one, or one of each address family.
type Changes = SmallVec<[Change; 1]>;
type Compile = fn(&mut Compiler<'_>, &Values) -> Result<Changes, PolicyError>;

/// The actions that change something other than a variable, in their order.
pub const CHANGES: [(&str, Compile); 8] = [
    ("community-delete", delete_communities),
    ("community-set", replace_communities),
    ("community-add", add_communities),
    ("as-path-replace", replace_as),
    ("as-path-remove-private", remove_private),
    ("as-path-prepend", prepend),
    ("next-hop", next_hop),
    ("damping", damping),
];
/// The actions that end a term.
pub const ENDS: [&str; 4] = ["accept", "reject", "next-term", "next-policy"];
/// Further actions.
pub const OTHERS: [&str; 2] = ["reason", "call"];

impl Compiler<'_> {
    /// Compiles the actions of the term of this number. Returns the jumps that lead to the end of the policy.
    pub(super) fn actions(
        &mut self,
        term: Index,
        then: &Named,
        callers: &mut Vec<String>,
    ) -> Result<Vec<Place>, PolicyError> {
        self.check_names(then)?;
        for (name, values) in then {
            if let Some((number, variable)) = find(self.vocabulary, name).filter(|_| !is_change(name)) {
                let change = self.within("then", name, |me| me.set(number, variable, values))?;
                self.emit(Instruction::Change(change))?;
            }
        }
        for (name, compile) in CHANGES {
            if let Some(values) = then.get(name) {
                for change in self.within("then", name, |me| compile(me, values))? {
                    self.emit(Instruction::Change(change))?;
                }
            }
        }
        for text in then.get("call").map(|values| &values.0[..]).unwrap_or_default() {
            self.within("then", "call", |me| me.call(text, callers))?;
            // Back from the called terms, so that a decision is this term's.
            self.emit(Instruction::Enter(term))?;
        }
        if then.contains_key("accept") {
            self.emit(Instruction::Accept)?;
        }
        if then.contains_key("reject") {
            let reason =
                then.get("reason").map(|values| self.within("then", "reason", |me| me.reason(values)));
            self.emit(Instruction::Reject(reason.transpose()?))?;
        }
        match then.contains_key("next-policy") {
            true => Ok(Vec::from([self.emit(Instruction::Jump(0))?])),
            false => Ok(Vec::new()),
        }
    }

    fn check_names(&mut self, then: &Named) -> Result<(), PolicyError> {
        let writable =
            self.vocabulary.iter().filter(|variable| variable.is_writable).map(|variable| variable.name);
        let changes = CHANGES.iter().map(|(name, _)| *name);
        let known = changes.chain(ENDS).chain(OTHERS).chain(writable);
        if let Some(name) = then.keys().find(|name| !known.clone().any(|known| known == *name)) {
            let message = match find(self.vocabulary, name).is_some() {
                true => format!("`{name}` can be asked for in `from`, and cannot be changed"),
                false => unknown("action", name, known),
            };
            return self.within("then", name, |me| Err(me.error(message)));
        }
        let ends: Vec<&str> = ENDS.into_iter().filter(|end| then.contains_key(*end)).collect();
        if ends.len() > 1 {
            let message = format!("a term ends in one way, not in {}", ends.join(" and "));
            return self.within("then", ends[1], |me| Err(me.error(message)));
        }
        if then.contains_key("reason") && !then.contains_key("reject") {
            return self.within("then", "reason", |me| Err(me.error("a reason is for `reject`".into())));
        }
        Ok(())
    }

    fn reason(&mut self, values: &Values) -> Result<Index, PolicyError> {
        let reason = self.only(values)?.to_string();
        self.constant(|c| &mut c.texts, reason)
    }

    /// Compiles a change of a variable: `100`, `+10`, `-10`, or a name.
    fn set(
        &mut self,
        number: VariableId,
        variable: &Variable,
        values: &Values,
    ) -> Result<Change, PolicyError> {
        let text = self.only(values)?;
        if let Type::Name(names) = variable.values {
            let place = name_of(text, names).map_err(|error| self.wrong(error))?;
            return Ok(Change::Set(number, place));
        }
        let most = variable.values.largest().unwrap_or(0);
        let (make, digits): (fn(VariableId, u32) -> Change, &str) = match text.as_bytes() {
            [b'+', ..] => (Change::Add, &text[1..]),
            [b'-', ..] => (Change::Subtract, &text[1..]),
            _ => (Change::Set, text),
        };
        let is_plain = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit());
        let value = digits.parse::<u32>().ok().filter(|value| is_plain && *value <= most);
        let expected = || format!("`{}`: expected a number up to {most}; +N adds, -N subtracts", shown(text));
        value.map(|value| make(number, value)).ok_or_else(|| self.error(expected()))
    }

    /// Reads communities that are added: none with wildcards.
    fn exact_communities(&mut self, values: &Values) -> Result<Index, PolicyError> {
        let members = self.members(values)?;
        if let Some(member) = members.iter().find(|member| !member.is_exact()) {
            return Err(self.error(format!(
                "`{member}` describes several communities; a route can get one without wildcards only"
            )));
        }
        self.constant(|c| &mut c.communities, CommunitySets::new(&members))
    }

    fn asn(&self, text: &str) -> Result<u32, PolicyError> {
        let asn = text.parse().ok().filter(|asn| Asn(*asn).0 != 0);
        asn.ok_or_else(|| self.error(format!("`{}`: expected an AS number", shown(text))))
    }
}

fn is_change(name: &str) -> bool {
    CHANGES.iter().any(|(known, _)| *known == name)
}

fn delete_communities(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    let sets = CommunitySets::new(&compiler.members(values)?);
    compiler.constant(|c| &mut c.communities, sets).map(|sets| smallvec![Change::DeleteCommunities(sets)])
}

fn replace_communities(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    compiler.exact_communities(values).map(|sets| smallvec![Change::ReplaceCommunities(sets)])
}

fn add_communities(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    compiler.exact_communities(values).map(|sets| smallvec![Change::AddCommunities(sets)])
}

fn replace_as(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    let text = compiler.only(values)?;
    let expected = || format!("`{}`: expected `ASES by AS`, such as `64512-65534 by 65000`", shown(text));
    let (ranges, asn) = text.split_once(" by ").ok_or_else(|| compiler.error(expected()))?;
    let asn = compiler.asn(asn.trim())?;
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?)).filter(|(first, last): &(u32, u32)| first <= last)
    };
    let ranges: Option<Vec<(u32, u32)>> = ranges.split_whitespace().map(range).collect();
    let ranges = ranges.filter(|all| !all.is_empty()).ok_or_else(|| compiler.error(expected()))?;
    Ok(smallvec![Change::ReplaceAs(compiler.constant(|c| &mut c.ranges, ranges)?, asn)])
}

fn remove_private(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    match values.0.is_empty() {
        true => Ok(smallvec![Change::RemovePrivateAs]),
        false => Err(compiler.error("expected no value".into())),
    }
}

fn prepend(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    let text = compiler.only(values)?;
    let asns: Vec<u32> = text.split_whitespace().map(|word| compiler.asn(word)).collect::<Result<_, _>>()?;
    if asns.is_empty() || asns.len() > MOST_PREPENDED {
        return Err(
            compiler.error(format!("expected 1 to {MOST_PREPENDED} AS numbers, such as `65001 65001`"))
        );
    }
    compiler.constant(|c| &mut c.sequences, asns).map(|asns| smallvec![Change::Prepend(asns)])
}

/// A word, or an address of each family at most.
fn next_hop(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    let word = match &values.0[..] {
        [word] if word == "self" => Some(NextHop::Own),
        [word] if word == "peer" => Some(NextHop::Peer),
        [word] if word == "unchanged" => Some(NextHop::Unchanged),
        [word] if word == "blackhole" => Some(NextHop::Blackhole),
        _ => None,
    };
    if let Some(word) = word {
        return Ok(smallvec![Change::NextHop(word)]);
    }
    let mut changes = Changes::new();
    let mut families = Vec::new();
    for text in &values.0 {
        let expected =
            || format!("`{}`: expected self, peer, unchanged, blackhole or an address", shown(text));
        let address: IpAddr = text.parse().map_err(|_| compiler.error(expected()))?;
        if families.contains(&address.is_ipv4()) {
            let message = "expected one address of each family: of IPv4, of IPv6, or both";
            return Err(compiler.error(message.into()));
        }
        families.push(address.is_ipv4());
        changes.push(Change::NextHop(NextHop::Address(address)));
    }
    match changes.is_empty() {
        true => Err(compiler.error("expected a value".into())),
        false => Ok(changes),
    }
}

fn damping(compiler: &mut Compiler<'_>, values: &Values) -> Result<Changes, PolicyError> {
    let name = compiler.only(values)?;
    if name == NO_DAMPING {
        return Ok(smallvec![Change::Damping(None)]);
    }
    let found = compiler.lists.damping(name).map_err(|error| compiler.wrong(error))?;
    let (damping, source) = (found.clone(), compiler.lists.source_of_damping(name));
    compiler.sources.insert(source);
    let damping = compiler.constant(|c| &mut c.dampings, damping)?;
    Ok(smallvec![Change::Damping(Some(damping))])
}
