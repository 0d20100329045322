//! Rights in words, for the operator who decides whether a component may have them.

use super::Rights;
use std::fmt::Display;

impl Rights {
    /// Returns everything that the component may do: phrases that go on after "may".
    pub fn in_words(&self) -> Vec<String> {
        let mut words = vec![format!("register as `{}` and as its instances", self.class)];
        if self.network_admin {
            words.push("configure the network of the host".into());
        }
        if self.reads {
            words.push("call every method that only reads, of any component".into());
        }
        for (target, methods) in &self.calls {
            let of = if target == "*" { "any component".to_owned() } else { format!("`{target}`") };
            let limits = |method: &String| {
                let limit = self.limit.iter().find(|limit| limit.call == format!("{target}/{method}"));
                limit.map(|limit| format!(" with {}", limit.in_words())).unwrap_or_default()
            };
            words.extend(methods.iter().map(|method| format!("call {method} of {of}{}", limits(method))));
        }
        if self.may_announce() {
            words.extend(self.routes_in_words());
        }
        let sockets = &self.sockets;
        each(&mut words, "listen on TCP port", &sockets.tcp_listen);
        each(&mut words, "connect to TCP port", &sockets.tcp_connect);
        each(&mut words, "use UDP port", &sockets.udp);
        each(&mut words, "connect to UDP port", &sockets.udp_connect);
        each(&mut words, "connect to the Unix socket", &sockets.unix_connect);
        each(&mut words, "open raw sockets of IP protocol", &sockets.raw);
        each(&mut words, "receive ICMPv6 messages of type", &sockets.icmpv6);
        each(&mut words, "join multicast group", &sockets.multicast);
        each(&mut words, "open packet sockets of protocol", &sockets.packet);
        each(&mut words, "join link-layer group", &sockets.link_groups);
        each(&mut words, "put into the path of packets the program", &self.programs.put);
        each(
            &mut words,
            "add virtual links to the router's network, and neighbors on the links, of the kind",
            &self.links.kinds,
        );
        each(&mut words, "decide where packets go that name XIDs of the type", &self.xip.principals);
        if let Some(files) = self.files {
            words.push(format!("keep files of {} MiB in a folder of its own", files.quota_mib));
        }
        for helper in self.helper.values() {
            let (programs, options) = (helper.programs.join(" or "), helper.options.join(", "));
            words.push(format!(
                "have {programs} run in the router's network, as a user of its own, with the options {options}"
            ));
        }
        if let Some(bounds) = self.resources {
            words.push(format!("use {} MiB of memory", bounds.memory_mib));
            words.push(format!("use {} % of a processor", bounds.processor_percent));
            words.push(format!("run {} processes and threads", bounds.processes));
            words.push(format!("open {} files", bounds.open_files));
        }
        words
    }

    /// Compares rights with those before. Returns what the component may do in addition, and what it may not do any more.
    pub fn compared_with(&self, before: &Rights) -> (Vec<String>, Vec<String>) {
        let (new, old) = (self.in_words(), before.in_words());
        let more = new.iter().filter(|phrase| !old.contains(phrase)).cloned().collect();
        let less = old.into_iter().filter(|phrase| !new.contains(phrase)).collect();
        (more, less)
    }

    /// Returns true if the component may call the method that registers an origin of routes.
    fn may_announce(&self) -> bool {
        let registers = |method: &String| {
            let (interface, method) = method.split_once('/').unwrap_or((method, ""));
            ["rib.v1.Rib", "*"].contains(&interface) && ["RegisterOrigin", "*"].contains(&method)
        };
        ["rib", "*"].iter().filter_map(|target| self.calls.get(*target)).flatten().any(registers)
    }

    fn routes_in_words(&self) -> Vec<String> {
        let routes = &self.routes;
        let mut words = Vec::new();
        match routes.origins.is_empty() {
            true => words.push(format!("announce routes as the origin `{}`", self.class)),
            false => each(&mut words, "announce routes as the origin", &routes.origins),
        }
        match routes.prefixes.is_empty() {
            true => words.push("announce routes to any prefix".into()),
            false => each(&mut words, "announce routes to prefixes in", &routes.prefixes),
        }
        words.push(format!("announce routes with a distance of {} or more", routes.lowest_distance.0));
        words.push(format!("announce at most {} routes", routes.most));
        words
    }
}

fn each<T: Display>(words: &mut Vec<String>, what: &str, values: &[T]) {
    words.extend(values.iter().map(|value| format!("{what} {value}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_said_in_words() {
        let before = "class = \"radar\"\n[calls]\nrib = [\"rib.v1.Rib/RegisterOrigin\"]\n[routes]\n\
                      prefixes = [\"10.0.0.0/8\"]\n[sockets]\ntcp_listen = [8080]\nudp = [\"1000-1009\"]\n";
        let after = "class = \"radar\"\n[calls]\nrib = [\"rib.v1.Rib/*\"]\n[sockets]\nudp = [\"1000-1009\"]\n\
                     multicast = [\"224.0.0.9\"]\n";
        let (before, after) = (Rights::parse(before).expect("valid"), Rights::parse(after).expect("valid"));
        let (more, less) = after.compared_with(&before);
        assert_eq!(
            more,
            ["call rib.v1.Rib/* of `rib`", "announce routes to any prefix", "join multicast group 224.0.0.9"]
        );
        assert_eq!(
            less,
            [
                "call rib.v1.Rib/RegisterOrigin of `rib`",
                "announce routes to prefixes in 10.0.0.0/8",
                "listen on TCP port 8080"
            ]
        );
        assert_eq!(after.compared_with(&after), (Vec::new(), Vec::new()));
        assert!(before.in_words().contains(&"announce routes with a distance of 100 or more".to_owned()));
        let nothing = Rights::parse("class = \"quiet\"\n").expect("valid").in_words();
        assert_eq!(nothing, ["register as `quiet` and as its instances"]);
    }
}
