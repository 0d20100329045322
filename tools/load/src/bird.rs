//! BIRD as a feed: a configuration that announces a table.

use crate::table::{Announcement, RoutingTable};
use std::fmt::Write;

/// A neighbor that BIRD announces the table to.
#[derive(Clone, Debug)]
pub struct Feed<'a> {
    /// BIRD's router id.
    pub router_id: &'a str,
    /// BIRD's AS.
    pub local_as: u32,
    /// BIRD's own addresses on the link: IPv4, IPv6.
    pub local: (&'a str, &'a str),
    /// The neighbor's address on the link, and the neighbor's AS. Both families share a single session.
    pub neighbor: (&'a str, u32),
    /// The announced table.
    pub table: &'a RoutingTable,
}

impl Feed<'_> {
    /// The configuration text.
    pub fn config(&self) -> String {
        let mut text = String::with_capacity(self.table.len() * 90);
        let Feed { router_id, local_as, local, neighbor, table } = self;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "router id {router_id};\nprotocol device {{}}");
        let _ = writeln!(text, "protocol direct {{ ipv4; ipv6; }}");
        routes(&mut text, "feed4", "ipv4", &table.v4);
        routes(&mut text, "feed6", "ipv6", &table.v6);
        let _ = writeln!(
            text,
            "filter announced {{ if source = RTS_STATIC then accept; reject; }}\n\
             protocol bgp sluice {{\n  local {} as {local_as};\n  neighbor {} as {};\n  hold time 90;\n  \
             connect delay time 1;\n  connect retry time 2;\n  error wait time 1, 4;\n  \
             ipv4 {{ import none; export filter announced; next hop self; }};\n  \
             ipv6 {{ import none; export filter announced; next hop address {}; }};\n}}",
            local.0, neighbor.0, neighbor.1, local.1
        );
        text
    }
}

fn routes(text: &mut String, name: &str, family: &str, announcements: &[Announcement]) {
    let _ = writeln!(text, "protocol static {name} {{\n  {family};");
    for a in announcements {
        let _ = write!(text, "route {} blackhole {{", a.prefix);
        for asn in a.path.iter().rev() {
            let _ = write!(text, "bgp_path.prepend({asn});");
        }
        text.push_str("};\n");
    }
    text.push_str("}\n");
}
