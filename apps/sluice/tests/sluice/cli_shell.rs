//! The interactive shell at a terminal: help, completion, modes, history, filters.

use crate::SLUICE;
use rexpect::session::{PtySession, spawn_command};
use sluice_lab::available;
use sluice_router_lab::RouterLab;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const TOPOLOGY: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
system { host-name left; }
protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept; neighbor 10.1.0.2 { peer-as 64501; passive; } } }
'''
";

/// The longest time of an answer, in milliseconds.
const PATIENCE: u64 = 20_000;

/// The sequence from the line editor to the terminal at the beginning of a line (bracketed paste is switched on).
const LINE_BEGINS: &str = "\x1b[?2004h";

struct Shell(PtySession);

impl Shell {
    fn open(run_dir: &Path, state: &Path) -> Self {
        let mut command = Command::new(SLUICE);
        command.arg("--run-dir").arg(run_dir).env("XDG_STATE_HOME", state).env("TERM", "dumb-but-ansi");
        command.env("PAGER", "cat").env("NO_COLOR", "1").env_remove("SLUICE_PAGER");
        let mut shell = Shell(spawn_command(command, Some(PATIENCE)).unwrap());
        shell.sees("`help` explains more");
        shell.sees("left> ");
        shell
    }

    /// Returns the output up to a text, which must arrive.
    fn sees(&mut self, text: &str) -> String {
        self.0.exp_string(text).unwrap_or_else(|e| panic!("never `{text}`: {e}"))
    }

    fn types(&mut self, text: &str) {
        self.0.send(text).unwrap();
        self.0.flush().unwrap();
    }

    /// Types the lines of a text and then `key`, as soon as the shell waits for the line behind them: between two lines the terminal itself
    /// interprets control characters.
    fn types_text(&mut self, lines: &[&str], key: &str) {
        self.sees("Ctrl-D");
        for line in lines {
            self.sees(LINE_BEGINS);
            self.types(&format!("{line}\r"));
        }
        self.sees(LINE_BEGINS);
        self.types(key);
    }

    /// Types a line and Enter, and returns the output up to the next prompt.
    fn line(&mut self, text: &str, prompt: &str) -> String {
        self.types(text);
        self.types("\r");
        self.sees("\n");
        self.sees(prompt)
    }
}

#[test]
fn at_a_terminal() {
    if let Err(reason) = available() {
        sluice_testkit::skipped(reason);
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    let state = tempfile::tempdir().unwrap();
    let mut shell = Shell::open(&lab.run_dir(), state.path());

    // Help at any place, with what only the router knows; the line stays.
    shell.types("show bgp neighbor ?");
    shell.sees("<address>");
    shell.sees("10.1.0.2");
    shell.sees("<Enter>");
    shell.sees("left> ");
    // Tab writes what is unambiguous.
    shell.types("\t\r");
    shell.sees("neighbor 10.1.0.2 AS 64501");
    shell.sees("left> ");
    let count = shell.line("sh proc | match running | count", "left> ");
    assert!(count.contains("4 lines"), "{count}");
    let json = shell.line("show version | json", "left> ");
    assert!(json.contains("\"program\""), "{json}");
    let wrong = shell.line("show frob", "left> ");
    assert!(wrong.contains("unknown word `frob`"), "{wrong}");

    // A change, from the schema's help to a commit.
    shell.line("configure", "left# ");
    shell.types("set protocols bgp neighbor 10.1.0.2 hold-time ?");
    shell.sees("seconds, default 90");
    shell.sees("left# ");
    shell.line("30", "left# ");
    shell.line("edit protocols bgp neighbor 10.1.0.2", "[edit protocols bgp neighbor 10.1.0.2]");
    shell.sees("left# ");
    shell.line("set password hunter2", "left# ");
    let shown = shell.line("show", "left# ");
    assert!(shown.contains("hold-time 30;") && !shown.contains("hunter2"), "{shown}");
    let compared = shell.line("compare", "left# ");
    assert!(compared.contains("+  hold-time 30;"), "{compared}");
    let committed = shell.line("commit comment \"from the shell\"", "left# ");
    assert!(committed.contains("committed as revision 2"), "{committed}");
    shell.line("up", "[edit protocols bgp]");
    shell.sees("left# ");
    let run = shell.line("run show revisions", "left# ");
    assert!(run.contains("from the shell"), "{run}");
    let wrong = shell.line("set frob", "left# ");
    assert!(wrong.contains("unknown statement `frob`"), "{wrong}");
    shell.line("top", "[edit]");
    shell.sees("left# ");
    // Its name, in front of every line, is what runs.
    shell.line("set system host-name r7", "left# ");
    shell.line("commit", "r7# ");
    shell.line("delete system", "r7# ");
    shell.line("commit", "sluice# ");
    shell.line("exit", "sluice> ");
    shell.types("quit\r");
    shell.0.exp_eof().unwrap();

    let history = state.path().join("sluice/history");
    let kept = std::fs::read_to_string(&history).unwrap();
    assert!(kept.contains("show bgp neighbor") && !kept.contains("hunter2"), "{kept}");
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A shell of a router of its own; `None` where the lab is not possible.
fn shell(lab: &RouterLab, state: &Path) -> Shell {
    lab.until("the router is ready", RouterLab::ready);
    Shell::open(&lab.run_dir(), state)
}

#[test]
fn pasted_lines_are_statements() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    let state = tempfile::tempdir().unwrap();
    let mut shell = shell(&lab, state.path());
    let routes = |range: std::ops::Range<u32>| -> Vec<String> {
        range.map(|n| format!("set protocols static route 10.{n}.0.0/16 discard")).collect()
    };

    // As terminals without bracketed paste send it: all at once, in more octets than one read takes.
    shell.line("configure", "left# ");
    let lines = routes(0..40);
    shell.types(&format!("{}\rcommit\r", lines.join("\r")));
    shell.sees("committed as revision 2");
    shell.sees("left# ");
    lab.until("40 routes", |l| l.kernel().v4 == 40);

    // What follows a wrong line is dropped, also a `commit`.
    let wrong = ["set frob 1".to_owned()];
    let lines = [&routes(40..42)[..], &wrong, &routes(42..60)].concat();
    shell.types(&format!("{}\rcommit\r", lines.join("\r")));
    shell.sees("unknown statement `frob`");
    shell.sees("left# ");
    let compared = shell.line("compare", "left# ");
    assert!(compared.contains("10.41.0.0/16") && !compared.contains("10.42.0.0/16"), "{compared}");
    assert_eq!(lab.kernel().v4, 40);
    shell.line("discard", "left# ");

    // As other terminals send it: in brackets, carried out when Enter is pressed, up to the first wrong line.
    shell.types(&format!("\x1b[200~{}\x1b[201~\r", lines.join("\r")));
    shell.sees("stopped at line 3 of 21 (`set frob 1`); 18 lines behind it not carried out");
    shell.sees("left# ");
    let compared = shell.line("compare", "left# ");
    assert!(compared.contains("10.41.0.0/16") && !compared.contains("10.42.0.0/16"), "{compared}");
    shell.line("discard", "left# ");

    // Texts: in braces, and as statements. A `?` in them is a character.
    shell.types("load merge terminal\r");
    shell.types_text(
        &["protocols {", "\tbgp {", "\t\tneighbor 10.1.0.2 { description \"who?\"; }", "\t}", "}"],
        "\x04",
    );
    shell.sees("left# ");
    let shown = shell.line("show protocols bgp neighbor 10.1.0.2 description", "left# ");
    assert!(shown.contains("who?"), "{shown}");
    shell.types("load set terminal\r");
    let statements =
        ["set protocols static route 10.99.0.0/16 discard", "delete protocols static route 10.0.0.0/16"];
    shell.types_text(&statements, "\x04");
    shell.sees("left# ");
    shell.types("load set terminal\r");
    shell.types_text(&["set protocols static route 10.98.0.0/16 discard", "commit"], "\x04");
    shell.sees("line 2: `commit` is no statement");
    shell.sees("left# ");
    let compared = shell.line("compare", "left# ");
    assert!(compared.contains("+") && compared.contains("10.99.0.0/16"), "{compared}");
    assert!(!compared.contains("10.98.0.0/16"), "{compared}");
    shell.types("load merge terminal\r");
    shell.types_text(&["protocols {"], "\x03");
    shell.sees("canceled, nothing was loaded");
    shell.sees("left# ");
}

#[test]
fn words_of_other_command_lines_and_programs() {
    if let Err(reason) = available() {
        return sluice_testkit::skipped(reason);
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    let state = tempfile::tempdir().unwrap();
    let mut shell = shell(&lab, state.path());
    for (line, expected) in [
        ("wr", "what is committed is kept"),
        ("terminal length 0", "no-more"),
        ("enable", "not needed"),
        ("show run | include peer-as", "peer-as 64501"),
        ("show ip bgp summary", "AS 64500"),
        ("clear bgp *", "1 session is closed"),
        ("clear ip bgp 10.1.0.2", "closed and opened again"),
        ("schema show bgp summary | count", "lines"),
        ("call --list rib | match GetStatus", "common.v1.Component/GetStatus"),
        ("restart rib", "rib"),
    ] {
        let said = shell.line(line, "left> ");
        assert!(said.contains(expected), "{line}: {said}");
    }
    let pinged = shell.line("ping -c 1 127.0.0.1", "left> ");
    assert!(pinged.contains("127.0.0.1") || pinged.contains("apt install iputils-ping"), "{pinged}");
    shell.types("watch 1 show version\r");
    shell.sees("program");
    shell.sees("program");
    shell.types("\x03");
    shell.sees("interrupted");
    shell.sees("left> ");

    shell.line("conf t", "left# ");
    shell.line("no protocols bgp neighbor 10.1.0.2", "left# ");
    let compared = shell.line("compare", "left# ");
    assert!(compared.contains("neighbor 10.1.0.2"), "{compared}");
    let done = shell.line("do show version", "left# ");
    assert!(done.contains("program"), "{done}");
    shell.line("discard", "left# ");
    shell.line("end", "left> ");
}
