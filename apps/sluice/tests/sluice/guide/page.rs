//! The marked blocks of a page, in their order.

/// A step of a page.
#[derive(PartialEq, Eq, Debug)]
pub struct Block {
    /// The line, from 1.
    pub line: usize,
    /// The step.
    pub what: What,
}

/// The kind of a step.
#[derive(PartialEq, Eq, Debug)]
pub enum What {
    /// Write a file.
    File {
        /// The path of the file.
        path: String,
        /// The contents.
        text: String,
    },
    /// Run a command.
    Command(Command),
}

/// A printed command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Command {
    /// The text to type.
    pub text: String,
    /// The expected lines of output.
    pub expected: Vec<String>,
    /// True if the command is repeated until the expected output comes.
    pub is_awaited: bool,
    /// True if the command runs in the background.
    pub runs_on: bool,
    /// The expected exit status.
    pub status: i32,
}

/// Reads a page; an error names its line.
pub fn read(text: &str) -> Result<Vec<Block>, (usize, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    while let Some((at, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut inner = Vec::new();
        loop {
            match lines.next() {
                None => return Err((at, "the block has no end".into())),
                Some((_, "```")) => break,
                Some(found) => inner.push(found),
            }
        }
        let words: Vec<&str> = info.split_whitespace().collect();
        match words.as_slice() {
            ["conf" | "json" | "toml", path] => {
                let text = inner.iter().map(|(_, line)| format!("{line}\n")).collect();
                blocks.push(Block { line: at, what: What::File { path: (*path).into(), text } });
            }
            ["console", how @ ..] => commands(at, how, &inner, &mut blocks)?,
            _ => {} // for the eye only
        }
    }
    Ok(blocks)
}

fn commands(
    at: usize,
    how: &[&str],
    inner: &[(usize, &str)],
    blocks: &mut Vec<Block>,
) -> Result<(), (usize, String)> {
    let mut like =
        Command { text: String::new(), expected: Vec::new(), is_awaited: false, runs_on: false, status: 0 };
    for word in how {
        match (*word, word.strip_prefix("status=").map(str::parse)) {
            ("eventually", _) => like.is_awaited = true,
            ("background", _) => like.runs_on = true,
            (_, Some(Ok(status))) => like.status = status,
            _ => return Err((at, format!("`{word}` has no meaning behind `console`"))),
        }
    }
    let mut inner = inner.iter().peekable();
    while let Some((line, text)) = inner.next() {
        let Some(first) = text.strip_prefix("$ ") else {
            return Err((*line, "output without a command before it".into()));
        };
        let mut command = Command { text: first.into(), ..like.clone() };
        while command.text.ends_with('\\')
            && let Some((_, more)) = inner.next()
        {
            command.text = format!("{}\n{}", command.text, more.strip_prefix("> ").unwrap_or(more));
        }
        while let Some((_, output)) = inner.next_if(|(_, next)| !next.starts_with("$ ")) {
            command.expected.push((*output).into());
        }
        blocks.push(Block { line: *line, what: What::Command(command) });
    }
    Ok(())
}

#[test]
fn a_page_is_read() {
    let page = "Text\n```conf a.conf\nx;\n```\n```console status=4\n$ one \\\n> two\nout\n\n$ three\n```\n```sh\nno\n```\n";
    let command = |text: &str, expected: &[&str]| {
        What::Command(Command {
            text: text.into(),
            expected: expected.iter().map(ToString::to_string).collect(),
            is_awaited: false,
            runs_on: false,
            status: 4,
        })
    };
    let expected = vec![
        Block { line: 2, what: What::File { path: "a.conf".into(), text: "x;\n".into() } },
        Block { line: 6, what: command("one \\\ntwo", &["out", ""]) },
        Block { line: 10, what: command("three", &[]) },
    ];
    assert_eq!(read(page).unwrap(), expected);
    for (page, line) in [("```console\nout\n```\n", 2), ("\n```console frob\n```\n", 2), ("```console\n", 1)]
    {
        assert_eq!(read(page).unwrap_err().0, line, "{page}");
    }
}
