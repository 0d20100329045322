//! Compares a command's output with the page, as far as output can repeat.

/// Returns true if the output is as expected: blanks count once; `...` in a line is anything, and alone in a line any lines; a date, a time
/// of day, a span of time and an amount of memory are any other.
pub fn is_like(expected: &[String], output: &str) -> bool {
    let plain = |lines: &mut dyn Iterator<Item = &str>| {
        let mut lines: Vec<String> = lines.map(plain).collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    };
    let expected = plain(&mut expected.iter().map(String::as_str));
    let output = plain(&mut output.lines());
    lines_like(&expected, &output)
}

fn lines_like(expected: &[String], output: &[String]) -> bool {
    match expected.split_first() {
        None => output.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=output.len()).any(|skipped| lines_like(rest, &output[skipped..]))
        }
        Some((first, rest)) => {
            output.split_first().is_some_and(|(line, more)| line_like(first, line) && lines_like(rest, more))
        }
    }
}

fn line_like(expected: &str, line: &str) -> bool {
    let Some((first, rest)) = expected.split_once("...") else { return expected == line };
    let Some(mut left) = line.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once("...").unwrap_or(("", rest));
    for part in middle.split("...") {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

/// Returns a line with single blanks, and with every varying part replaced by a fixed word.
fn plain(line: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let (core, tail) = core(word);
        let is_amount = UNITS.contains(&core)
            && words.last().is_some_and(|before| self::core(before).0.parse::<f64>().is_ok());
        if is_amount && let Some(before) = words.last_mut() {
            let digits = self::core(before).0.to_owned();
            *before = format!("{}{tail}", before.replace(&digits, "<amount>"));
        } else if is_time(core) {
            words.push(word.replace(core, "<time>"));
        } else {
            words.push(word.into());
        }
    }
    words.join(" ")
}

const UNITS: [&str; 10] = ["ns", "us", "ms", "s", "min", "h", "d", "B", "KB", "MB"];

/// Returns a word without surrounding signs, and the trailing signs.
fn core(word: &str) -> (&str, &str) {
    let inner = word.trim_start_matches(['(', '[']);
    let core = inner.trim_end_matches([')', ']', ',', ';', ':', '.']);
    (core, &inner[core.len()..])
}

/// Returns true for a time of day, or a date with a time.
fn is_time(word: &str) -> bool {
    let of_day = word.rsplit('T').next().unwrap_or_default();
    let is_digits =
        |part: &str| part.len() >= 2 && part.chars().all(|c| c.is_ascii_digit() || ".Z".contains(c));
    let has_date = word.len() == of_day.len() || word.as_bytes().get(4) == Some(&b'-');
    has_date && of_day.split(':').count() == 3 && of_day.split(':').all(is_digits)
}

#[test]
fn what_is_like() {
    for (expected, output, like) in [
        ("a  b", "a b\n\n", true),
        ("a b", "a c", false),
        ("a\n...\nd", "a\nb\nc\nd", true),
        ("a\n...", "a", true),
        ("a\n...\nd", "a\nb\nc", false),
        ("a ... d", "a b c d", true),
        ("a ... c ... d", "a b d", false),
        ("...b", "a b", true),
        ("took 3 ms, 5 s", "took 12 ms, 0.25 s", true),
        ("took 3 ms)", "took 12 s", false),
        ("up 3 s", "up 4 h now", false),
        ("(1 change, 3 ms)", "(1 change, 24 ms)", true),
        ("at 2026-01-01T00:00:00.000Z x", "at 2030-12-31T23:59:59.999Z x", true),
        ("at 10:00:00", "at 23:59:59", true),
        ("a::1", "a::2", false),
        ("10:20:30", "later", false),
        ("n 5", "n 6", false),
    ] {
        let lines: Vec<String> = expected.lines().map(Into::into).collect();
        assert_eq!(is_like(&lines, output), like, "{expected:?} {output:?}");
    }
}
