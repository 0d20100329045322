//! Counts vague words in doc comments, area by area, and refuses a rise.
//!
//! Two shares are measured. *Pronouns*: pronouns and relative words among the words of doc comments. *Openings*: doc
//! comments of items (`///`) with such a word, in place of a noun or a verb, at the beginning. The goal is
//! 6 % and 10 %. Areas above the goal keep their shares in `xtask/prose.txt`, which may only fall.
//!
//! A third count is of [`WORDS`] in code, comments and documents, for which the field has verbs of its own (send, receive,
//! announce, report). The file has the count of the whole tree, which may only fall too.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file with the highest shares that each area may have.
const LIMITS: &str = "xtask/prose.txt";
/// Shares that no area has to go below, in tenths of a percent.
const GOAL: Shares = Shares { pronouns: 60, openings: 100 };
/// Files with fewer words are not listed among the worst files: a single sentence decides their share.
const FEWEST_WORDS: usize = 80;

const PRONOUNS: &[&str] = &[
    "it",
    "its",
    "what",
    "who",
    "whom",
    "whoever",
    "that",
    "this",
    "these",
    "those",
    "they",
    "them",
    "their",
    "one",
    "ones",
    "other",
    "others",
    "another",
    "nothing",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "none",
    "all",
];
const OPENERS: &[&str] = &[
    "It", "What", "Who", "Whether", "How", "Why", "Where", "When", "That", "This", "They", "Those", "These",
    "Of", "One", "All", "Nothing", "None",
];

/// Words whose number in the tree may only fall.
const WORDS: &[&str] = &["told", "heard", "says", "letter", "letters"];
/// Endings of files whose words are counted.
const WORD_FILES: &[&str] = &["rs", "md", "py", "proto", "toml"];
/// The name of the line with the largest number of [`WORDS`].
const WORDS_LINE: &str = "words";

/// Options of `cargo xtask prose`.
#[derive(clap::Args)]
pub struct Options {
    /// Number of files with the largest share of pronouns to print.
    #[arg(long, default_value_t = 10)]
    worst: usize,
    /// Writes today's shares as the new limits.
    #[arg(long)]
    write: bool,
}

/// Two shares in tenths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shares {
    pronouns: usize,
    openings: usize,
}

/// Counts of a file or of an area.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Counts {
    words: usize,
    pronouns: usize,
    comments: usize,
    openings: usize,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.pronouns += other.pronouns;
        self.comments += other.comments;
        self.openings += other.openings;
    }

    fn shares(self) -> Shares {
        Shares {
            pronouns: self.pronouns * 1000 / self.words.max(1),
            openings: self.openings * 1000 / self.comments.max(1),
        }
    }
}

/// Prints the shares of each area and the worst files; with `write`, stores the shares as limits.
///
/// # Errors
/// A file cannot be read or the limits cannot be written.
pub fn print(root: &Path, options: &Options) -> Result<()> {
    let files = count_files(root)?;
    let areas = by_area(&files);
    for (area, counts) in &areas {
        println!("{area:28} {}", describe(counts.shares()));
    }
    let mut total = Counts::default();
    areas.values().for_each(|counts| total.add(*counts));
    println!("{:28} {} (goal: {})", "all", describe(total.shares()), describe(GOAL));
    let words = count_words(root)?;
    println!("{:28} {words}", WORDS.join(", "));
    let mut worst: Vec<_> = files.iter().filter(|(_, counts)| counts.words >= FEWEST_WORDS).collect();
    worst.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.shares().pronouns));
    for (file, counts) in worst.into_iter().take(options.worst) {
        println!("  {} {}", describe(counts.shares()), file.display());
    }
    if options.write {
        let lines: Vec<String> = areas
            .iter()
            .map(|(area, counts)| {
                let shares = counts.shares();
                format!("{area} {} {}\n", shares.pronouns, shares.openings)
            })
            .collect();
        let words = format!("{WORDS_LINE} {words}\n");
        std::fs::write(root.join(LIMITS), HEADING.to_owned() + &lines.concat() + &words)?;
    }
    Ok(())
}

const HEADING: &str = "\
# Highest shares of vague words in doc comments: area, pronouns, vague openings, in tenths of a percent.
# They may only fall: `cargo xtask prose --write` stores today's. The last line has the number of words that stand for verbs
# of the field.
";

/// Lists the areas with shares above both their limit and the goal.
///
/// # Errors
/// A file cannot be read, or a line of the limits is malformed.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(root.join(LIMITS)).with_context(|| format!("{LIMITS} cannot be read"))?;
    let (limits, most_words) = parse_limits(&text)?;
    let areas = by_area(&count_files(root)?);
    let mut found: Vec<String> = areas
        .iter()
        .filter_map(|(area, counts)| judge(area, counts.shares(), limits.get(area).copied()))
        .collect();
    found.extend(judge_words(count_words(root)?, most_words));
    Ok(found)
}

/// Compares the number of [`WORDS`] with its limit.
fn judge_words(words: usize, most: usize) -> Option<String> {
    (words > most).then(|| {
        let list = WORDS.join(", ");
        format!("{words} words of: {list}; at most {most}; send, receive, announce, notify, report, message")
    })
}

/// Counts [`WORDS`] in code, comments and documents.
fn count_words(root: &Path) -> Result<usize> {
    let mut files = Vec::new();
    crate::tidy::walk(root, root, &mut files)?;
    files.retain(|file| file.extension().is_some_and(|end| WORD_FILES.iter().any(|known| end == *known)));
    files.into_iter().map(|file| Ok(words_of(&std::fs::read_to_string(root.join(file))?))).sum()
}

/// Counts [`WORDS`] in a text; a part of an identifier is no word.
fn words_of(text: &str) -> usize {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.filter(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))).count()
}

/// Compares an area's shares with its limit; an area without a limit has the goal as its limit.
fn judge(area: &str, shares: Shares, limit: Option<Shares>) -> Option<String> {
    let limit = limit.unwrap_or(GOAL);
    let pronouns = limit.pronouns.max(GOAL.pronouns);
    let openings = limit.openings.max(GOAL.openings);
    let is_worse = shares.pronouns > pronouns || shares.openings > openings;
    is_worse.then(|| {
        let allowed = describe(Shares { pronouns, openings });
        format!(
            "{area}: doc comments have {}, at most {allowed}; name the thing, open with a noun or a verb \
             (cargo xtask prose --worst 10 lists files)",
            describe(shares)
        )
    })
}

fn describe(shares: Shares) -> String {
    let tenths = |n: usize| format!("{}.{}", n / 10, n % 10);
    format!("{:>4} % pronouns, {:>4} % vague openings", tenths(shares.pronouns), tenths(shares.openings))
}

/// Returns the shares of areas, and the largest number of [`WORDS`].
fn parse_limits(text: &str) -> Result<(BTreeMap<String, Shares>, usize)> {
    let (mut limits, mut most_words) = (BTreeMap::new(), 0);
    for line in text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        match line.split_whitespace().collect::<Vec<&str>>()[..] {
            [WORDS_LINE, most] => most_words = most.parse()?,
            [area, pronouns, openings] => {
                let shares = Shares { pronouns: pronouns.parse()?, openings: openings.parse()? };
                limits.insert(area.to_owned(), shares);
            }
            _ => {
                anyhow::bail!("{LIMITS}: `{line}` is neither an area with two numbers nor a number of words")
            }
        }
    }
    Ok((limits, most_words))
}

/// Sums the counts of a crate's files.
fn by_area(files: &[(PathBuf, Counts)]) -> BTreeMap<String, Counts> {
    let mut areas: BTreeMap<String, Counts> = BTreeMap::new();
    for (file, counts) in files {
        areas.entry(area(file)).or_default().add(*counts);
    }
    areas
}

/// The crate's folder of a file: one, two or, for components, three levels deep.
fn area(file: &Path) -> String {
    let parts: Vec<String> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let depth = match parts.first().map(String::as_str) {
        Some("components") => 3,
        Some("kits" | "platform" | "apps" | "tools" | "bench" | "sdk") => 2,
        _ => 1,
    };
    parts[..depth.min(parts.len().saturating_sub(1))].join("/")
}

fn count_files(root: &Path) -> Result<Vec<(PathBuf, Counts)>> {
    let mut files = Vec::new();
    crate::tidy::walk(root, root, &mut files)?;
    files.retain(|file| file.extension().is_some_and(|e| e == "rs"));
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(root.join(&file))?;
            let counts = count(&text);
            Ok((file, counts))
        })
        .collect()
}

/// Counts the words of a file's doc comments; code blocks are left out.
fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for (is_item, comment) in comments(text) {
        if is_item {
            counts.comments += 1;
            counts.openings += usize::from(opens_vaguely(&comment));
        }
        let words =
            comment.split(|c: char| !c.is_ascii_alphabetic() && c != '\'').filter(|word| !word.is_empty());
        for word in words {
            counts.words += 1;
            counts.pronouns += usize::from(PRONOUNS.contains(&word.to_ascii_lowercase().as_str()));
        }
    }
    counts
}

/// Returns true if a comment opens with a pronoun or relative word.
fn opens_vaguely(comment: &str) -> bool {
    let first: &str = comment.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    OPENERS.contains(&first) || comment.starts_with("The same")
}

/// Joins the lines of each doc comment; the flag is true for a comment of an item (`///`).
fn comments(text: &str) -> Vec<(bool, String)> {
    let mut all: Vec<(bool, String)> = Vec::new();
    let mut kind_before = None;
    let mut is_code = false;
    for line in text.lines() {
        let line = line.trim();
        let kind = match line.get(..3) {
            Some("///") => Some(true),
            Some("//!") => Some(false),
            _ => None,
        };
        if kind != kind_before {
            is_code = false;
            if let Some(is_item) = kind {
                all.push((is_item, String::new()));
            }
        }
        kind_before = kind;
        let Some((_, comment)) = all.last_mut().filter(|_| kind.is_some()) else { continue };
        let words = line[3..].trim();
        if words.starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(words);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
//! A table.

/// What it holds.
struct Table;

/// Returns the path of a neighbor.
/// ```
/// what(it, that);
/// ```
fn path() {}
";

    #[test]
    fn pronouns_and_openings_are_counted_outside_code() {
        let counts = count(SAMPLE);
        assert_eq!(counts, Counts { words: 11, pronouns: 2, comments: 2, openings: 1 });
    }

    #[test]
    fn a_share_above_its_limit_is_refused_and_one_below_the_goal_is_not() {
        let (limits, most_words) = parse_limits("# heading\nbase 100 200\nwords 3\n").unwrap();
        assert_eq!(most_words, 3);
        let limit = limits.get("base").copied();
        assert_eq!(judge("base", Shares { pronouns: 100, openings: 200 }, limit), None);
        let worse = judge("base", Shares { pronouns: 101, openings: 200 }, limit).unwrap();
        assert!(worse.contains("base") && worse.contains("10.1 % pronouns"), "{worse}");
        assert_eq!(judge("new", Shares { pronouns: 60, openings: 100 }, None), None);
        assert!(judge("new", Shares { pronouns: 61, openings: 0 }, None).is_some());
    }

    #[test]
    fn words_are_counted_whole_and_one_more_is_refused() {
        assert_eq!(words_of("It says what was Told: is_told, letter-box, letters_ and heard."), 4);
        assert_eq!(judge_words(4, 4), None);
        assert!(judge_words(5, 4).is_some_and(|text| text.contains("at most 4")));
    }

    #[test]
    fn a_file_belongs_to_its_crate() {
        assert_eq!(area(Path::new("components/bgp/core/src/lib.rs")), "components/bgp/core");
        assert_eq!(area(Path::new("kits/wire/src/lib.rs")), "kits/wire");
        assert_eq!(area(Path::new("base/src/lib.rs")), "base");
        assert_eq!(area(Path::new("xtask/src/main.rs")), "xtask");
    }
}
