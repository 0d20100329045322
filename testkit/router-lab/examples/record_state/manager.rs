//! The manager's files: a router after commits, an upgrade and restarts, and in the middle of a hand-over.

use crate::write;
use serde_json::{Map, Value};
use sluice_router_lab::{RouterLab, bird, executable, wrapper_of};
use std::path::Path;

/// The folder of the executables: its name is part of the recorded files.
const PROGRAMS: &str = "/tmp/sluice-recording";

/// The files of the state folder that are recorded. The schema is left out: it is the executable's, and large.
const STATE: [&str; 4] = ["audit.log", "audit.head", "copy.json", "unconfirmed.json"];

/// Records the manager's files in a folder.
pub fn record(folder: &Path) {
    let programs = Path::new(PROGRAMS);
    let [first, usual, slow] = ["first", "usual", "slow"].map(|name| programs.join(name));
    [&first, &usual, &slow].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    let first = first.join("sluice");
    std::fs::copy(executable(), &first).unwrap();
    let usual = wrapper_of(&first, &usual, "");
    let go = programs.join("go");
    let _ = std::fs::remove_file(&go);
    // The new process waits until the file exists, and the hand-over waits for the process.
    let wait = format!("[ \"$1\" != run ] || while ! [ -e {} ]; do :; done;", go.display());
    let slow = wrapper_of(&first, &slow, &wait).display().to_string();

    let lab = RouterLab::up(&topology().parse().unwrap(), &first);
    lab.until("the router is ready", RouterLab::ready);
    lab.until("the routes are there", |lab| lab.kernel().v4 == ROUTES + 1);
    bird::commit(&lab, "set protocols static route 198.51.100.0/24 discard");
    bird::commit(&lab, "delete protocols static route 198.51.100.0/24");
    let done = |words: &[&str]| {
        let output = lab.cli(words);
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    };
    done(&["upgrade", "static", "--binary", &usual.display().to_string()]);
    done(&["restart", "bgp"]);
    done(&["restart", "manager"]);
    lab.until("the manager's next life has taken over", |lab| {
        lab.whole_log().contains("taken over from an earlier life") && lab.ready()
    });
    done(&["configure", "set system host-name golden", "commit confirmed 30"]);
    record_processes(&lab, &folder.join("router/state.json"));

    let upgrade = std::thread::scope(|scope| {
        let upgrade = scope.spawn(|| lab.cli(&["upgrade", "static", "--binary", &slow]));
        let under_way = |lab: &RouterLab| processes(lab).contains_key("static:next");
        lab.until("a hand-over is under way", under_way);
        record_processes(&lab, &folder.join("hand-over/state.json"));
        std::fs::write(&go, "").unwrap();
        upgrade.join().unwrap()
    });
    assert!(upgrade.status.success(), "{upgrade:?}");

    let state = lab.run_dir().join("state");
    for name in STATE {
        write(&folder.join("router").join(name), &std::fs::read(state.join(name)).unwrap());
    }
    for revision in std::fs::read_dir(state.join("revisions")).unwrap() {
        let path = revision.unwrap().path();
        let name = Path::new("router/revisions").join(path.file_name().unwrap());
        write(&folder.join(name), &std::fs::read(path).unwrap());
    }
    drop(lab);
    std::fs::remove_dir_all(programs).unwrap();
}

/// The routes that BIRD announces.
const ROUTES: usize = 60;

fn topology() -> String {
    let bird = crate::bird(ROUTES);
    format!(
        "
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {{
    bgp {{
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        neighbor 10.0.1.2 {{ peer-as 64501; connect-retry-time 1; }}
    }}
    static {{ route 192.0.2.0/24 discard; }}
}}
'''
{bird}[[links]]
a = 'bird:eth0'
b = 'sluice:eth0'
a_addresses = ['10.0.1.2/24']
b_addresses = ['10.0.1.1/24']
"
    )
}

/// Returns the records of `state.json` by name.
fn processes(lab: &RouterLab) -> Map<String, Value> {
    let text = std::fs::read(lab.run_dir().join("state.json")).unwrap_or_default();
    let file: Value = serde_json::from_slice(&text).unwrap_or_default();
    let processes = if file["version"].is_number() { &file["processes"] } else { &file };
    processes.as_object().cloned().unwrap_or_default()
}

/// Records `state.json`, with other secrets, and checks that it has the processes that the router shows.
fn record_processes(lab: &RouterLab, to: &Path) {
    let mut text = std::fs::read_to_string(lab.run_dir().join("state.json")).unwrap();
    for (number, (name, process)) in (1..).zip(processes(lab)) {
        let pid = lab.pid(name.split(':').next().unwrap());
        assert!(name.contains(':') || process["pid"].as_u64() == pid, "{name}: {process}, {pid:?}");
        text = text.replace(process["secret"].as_str().unwrap(), &format!("{number:032x}"));
    }
    write(to, text.as_bytes());
}
