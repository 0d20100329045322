//! The console between elements: an element carries out calls for operators of other elements. An element is to others an operator at most: it
//! may read, clear, reset and refresh. Configuration, life and packages of a machine are out of its reach.

/// The TCP port of the console.
pub const PORT: u16 = 2382;

/// The packages in which nothing is changed from other elements.
const PLATFORM: [&str; 2] = ["manager.", "finder."];
/// The interface whose calls are not passed on: a call goes to one element.
const OWN: &str = "cluster.v1.Elements";

/// The beginnings of methods that change what the next packets and messages make anew.
const CHANGING: [&str; 3] = ["Clear", "Reset", "Refresh"];
/// Further methods of that kind.
const MORE_CHANGING: [&str; 1] = ["Ping"];

/// The kind of a call for an operator of another element.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// The call only reads.
    Reads,
    /// The call changes something: the role of the person decides.
    Changes,
    /// The call checks a configuration for a commit of another element. Elements make the call, and no person does.
    Prepares,
}

/// The method that checks a configuration for a commit of another element.
pub const PREPARE: &str = "manager.v1.SharedConfiguration/Prepare";

/// Returns the kind of a method that an element carries out for others; `None` for all other methods. `path` is PACKAGE.SERVICE/METHOD,
/// `reads` is true for a method whose target registered it as one that only reads.
pub fn kind(path: &str, reads: bool) -> Option<CallKind> {
    let (interface, method) = path.split_once('/').filter(|(interface, _)| *interface != OWN)?;
    if path == PREPARE {
        return Some(CallKind::Prepares);
    }
    let begins = |words: &[&str]| words.iter().any(|start| method.starts_with(start));
    if reads {
        return Some(CallKind::Reads);
    }
    let is_platform = PLATFORM.iter().any(|package| interface.starts_with(package));
    let changes = !is_platform && (begins(&CHANGING) || MORE_CHANGING.contains(&method));
    changes.then_some(CallKind::Changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_read_and_calls_of_an_operator_are_carried_out() {
        for path in [
            "bgp.v1.Bgp/GetSummary",
            "bgp.v1.Bgp/Explain",
            "manager.v1.Configuration/Show",
            "x.v1.X/ClearAll",
        ] {
            assert_eq!(kind(path, true), Some(CallKind::Reads), "{path}");
        }
        for path in [
            "bgp.v1.Bgp/ResetNeighbor",
            "bgp.v1.Bgp/RefreshNeighbor",
            "xip.v1.Xip/ClearCache",
            "xip.v1.Xip/Ping",
        ] {
            assert_eq!(kind(path, false), Some(CallKind::Changes), "{path}");
        }
        assert_eq!(kind(PREPARE, false), Some(CallKind::Prepares));
        for path in [
            "manager.v1.SharedConfiguration/Take",
            "manager.v1.SharedConfiguration/Export",
            "",
            "/",
            "GetSummary",
            "bgp.v1.Bgp/",
            "bgp.v1.Bgp/GetSummary",
            "bgp.v1.Bgp/SetCheck",
            "bgp.v1.Get/Put",
            "bgp.v1.Bgp/PingAll",
            "manager.v1.Manager/StopRouter",
            "manager.v1.Manager/ResetAll",
            "finder.v1.Finder/ClearAll",
            "manager.v1.Helpers/FetchCredentials",
            "manager.v1.Remote/Admit",
            "manager.v1.Configuration/Commit",
            "cluster.v1.Cluster/Remove",
        ] {
            assert_eq!(kind(path, false), None, "{path}");
        }
        for path in ["cluster.v1.Elements/GetFromElement", "cluster.v1.Elements/CallElement"] {
            assert_eq!((kind(path, true), kind(path, false)), (None, None), "{path}");
        }
    }
}
