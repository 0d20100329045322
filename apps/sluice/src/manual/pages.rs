//! Manual pages: generated from the commands, with examples.

use crate::command_line::front;
use crate::components::COMMANDS;
use crate::manual::conf_page;
use crate::output::Failure;
use clap_mangen::Man;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::Stdio;

/// Examples by command: a line to type, and its effect.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "sluice",
        &[
            ("sluice start --config router.conf", "Run a router in the foreground."),
            ("sluice", "Open the interactive shell; ? lists what may follow."),
            ("sluice show bgp summary --json | jq .established", "The number of established sessions."),
            (
                "sluice configure 'set system host-name r1' 'commit comment \"a name\"'",
                "Change the configuration.",
            ),
            ("sluice status && echo ready", "Act if the router is ready."),
        ],
    ),
    (
        "sluice-show-routes",
        &[
            ("sluice show routes 192.0.2.1", "The route that an address is forwarded by."),
            ("sluice show routes 10.0.0.0/8 longer origin bgp", "All BGP routes inside a prefix."),
            ("sluice show routes --kernel -6", "The kernel's IPv6 table."),
        ],
    ),
    (
        "sluice-show-configuration",
        &[
            ("sluice show configuration protocols bgp", "A part of what runs."),
            ("sluice show configuration --revision 1 '|' set", "What ran before, as statements."),
        ],
    ),
    (
        "sluice-policy-test",
        &[
            (
                "sluice policy test from-customer 10.1.0.0/16 as-path '65010 65020' as neighbor 192.0.2.1",
                "What the running router does with a route of a neighbor, step by step.",
            ),
            (
                "sluice policy test --config new.conf from-customer rib.mrt compare from-customer-v2",
                "What two policies of a file do with all routes of a trace, and where they differ.",
            ),
        ],
    ),
    (
        "sluice-pktgen-send",
        &[
            (
                "sluice pktgen send --interface eth0 --to 02:00:00:00:00:01 --source 10.0.0.1 --destination 10.9.0.1 --time 10",
                "As many packets as possible through the router with that Ethernet address.",
            ),
            (
                "sluice pktgen send --interface eth0 --to 02:00:00:00:00:01 --source 10.0.0.1 --destinations table.txt --random 100000 --zipf 1.0 --rate 500000",
                "500,000 packets a second to addresses of a table's prefixes, few of them frequent.",
            ),
        ],
    ),
    (
        "sluice-pktgen-count",
        &[("sluice pktgen count --interface eth0 --time 12 --json", "What arrives in 12 seconds.")],
    ),
    (
        "sluice-pktgen-replay",
        &[("sluice pktgen replay --interface eth0 trace.pcap --speed 2", "A capture, twice as fast.")],
    ),
    (
        "sluice-show-metrics",
        &[
            (
                "cd /var/lib/node_exporter && sluice show metrics > sluice.tmp && mv sluice.tmp sluice.prom",
                "Hand everything to the textfile collector of node_exporter.",
            ),
            ("sluice show metrics bgp '|' match state=.Established", "Which sessions are up."),
        ],
    ),
    (
        "sluice-configure",
        &[
            ("sluice configure", "Open the shell in the configuration mode."),
            (
                "sluice configure 'set protocols bgp neighbor 192.0.2.2 enabled false' 'commit confirmed 5'",
                "Try something for five minutes.",
            ),
            (
                "sluice configure < changes.txt",
                "Carry out statements of a file; nothing is committed if one is wrong.",
            ),
        ],
    ),
    (
        "sluice-commit",
        &[
            (
                "sluice commit --from-file router.conf --check",
                "Say what a file would change; status 10 if it would.",
            ),
            (
                "sluice commit --from-file router.conf --confirmed 10",
                "Commit it; without another commit within ten minutes the old one runs again.",
            ),
            ("sluice commit", "Confirm."),
        ],
    ),
    ("sluice-compare", &[("sluice compare --rollback 1", "What the last commit has changed.")]),
    (
        "sluice-monitor",
        &[
            ("sluice monitor sessions", "Sessions as they come up and go down, with the reason."),
            ("sluice monitor --json | jq -r .id", "Names of events, one a line."),
        ],
    ),
    (
        "sluice-doctor",
        &[("sluice doctor || echo 'a router cannot run here'", "Look before the first start.")],
    ),
    ("sluice-reload", &[("sluice reload", "Take a configuration file that was changed by hand.")]),
    (
        "sluice-stop",
        &[("sluice stop && sluice flush", "End the router and leave nothing of it in the kernel.")],
    ),
    (
        "sluice-support-bundle",
        &[("sluice support-bundle --into problem.tar.gz", "Collect what helps to find a problem.")],
    ),
];

/// Writes a page for each command, and the page of the configuration, into a folder.
pub fn write_into(folder: &Path) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| Failure::io(&folder.display().to_string(), &e);
    std::fs::create_dir_all(folder).map_err(wrong)?;
    write_all(folder, "sluice", &front::whole()).map_err(wrong)?;
    std::fs::write(folder.join("sluice.conf.5"), conf_page::page()?).map_err(wrong)
}

/// Shows the page of a command: by man(1) at a terminal, as source otherwise and where man(1) is not installed.
pub fn show(words: &[String]) -> Result<(), Failure> {
    let page = page_of(words)?;
    if std::io::stdout().is_terminal() {
        let reader = std::process::Command::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
        if let Ok(mut reader) = reader {
            // Who leaves man(1) before the end of the page has seen enough.
            let _ = reader.stdin.take().map(|mut input| input.write_all(&page));
            return reader.wait().map(drop).map_err(|e| Failure::io("man", &e));
        }
    }
    std::io::stdout().write_all(&page).map_err(|e| Failure::io("standard output", &e))
}

fn page_of(words: &[String]) -> Result<Vec<u8>, Failure> {
    let mut command = front::whole();
    let mut line = "sluice".to_string();
    for word in words {
        let Some(next) = front::subcommand(&command, word) else {
            let words = words.join(" ");
            return Err(Failure::usage(format!("there is no command `{words}`; `sluice --help` lists all")));
        };
        line = format!("{line} {}", next.get_name());
        command = next;
    }
    page(&line, &command).map_err(|e| Failure::io("the manual page", &e))
}

fn write_all(folder: &Path, line: &str, command: &clap::Command) -> std::io::Result<()> {
    std::fs::write(folder.join(format!("{}.1", name_of(line))), page(line, command)?)?;
    let inner = command.get_subcommands().filter(|c| !c.is_hide_set());
    inner.into_iter().try_for_each(|c| write_all(folder, &format!("{line} {}", c.get_name()), c))
}

/// Returns the name of a command's page: dashes stand where the command line has blanks.
fn name_of(line: &str) -> String {
    line.replace(' ', "-")
}

fn page(line: &str, command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let name = name_of(line);
    let command = command.clone().name(name.clone()).bin_name(line.to_string()).disable_help_subcommand(true);
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().any(|a| !a.is_hide_set()) {
        man.render_options_section(&mut page)?;
    }
    if command.get_subcommands().any(|c| !c.is_hide_set()) {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some((_, examples)) = examples().find(|(page, _)| *page == name) {
        writeln!(page, ".SH EXAMPLES")?;
        for (line, what) in examples {
            writeln!(page, ".TP\n\\fB{}\\fR\n{}", escaped(line), escaped(what))?;
        }
    }
    if name == "sluice" {
        man.render_version_section(&mut page)?;
    }
    writeln!(
        page,
        ".SH \"EXIT STATUS\"\n0 done; 1 failed; 2 the command line is wrong; 3 no router; 4 the configuration is not valid; 5 somebody else \
         edits or was first; 6 no answer in time; 7 not allowed; 10 there are changes (check, compare)."
    )?;
    Ok(page)
}

/// Iterates over the examples of every page, including examples of components.
fn examples() -> impl Iterator<Item = (String, &'static [(&'static str, &'static str)])> {
    let of_components = COMMANDS.iter().flat_map(|(_, own)| own.examples);
    let named = of_components.map(|(id, lines)| (format!("sluice-{}", id.replace(' ', "-")), *lines));
    EXAMPLES.iter().map(|(page, lines)| ((*page).to_string(), *lines)).chain(named)
}

/// Returns text escaped for roff: dashes and backslashes keep their look, and no line is a request.
pub fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_of_commands_that_there_are() {
        let folder = tempfile::tempdir().unwrap();
        write_into(folder.path()).unwrap_or_else(|f| panic!("{}", f.message));
        for (name, _) in super::examples() {
            let page = std::fs::read_to_string(folder.path().join(format!("{name}.1"))).expect(&name);
            assert!(page.contains(".SH EXAMPLES"), "{name}");
        }
    }
    #[test]
    fn a_command_has_its_page() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(String::from).collect();
            page_of(&words).map(|page| String::from_utf8_lossy(&page).into_owned())
        };
        assert!(of("show bgp summary").is_ok_and(|page| page.contains(".TH sluice-show-bgp-summary")));
        assert!(of("restart").is_ok_and(|page| page.contains(".TH sluice-restart")));
        assert!(of("").is_ok_and(|page| page.contains(".TH sluice 1")));
        assert_eq!(of("show frob").map_err(|f| f.status), Err(Failure::USAGE));
    }
}
