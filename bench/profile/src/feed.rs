//! The input: the UPDATEs of a single session, as octets.

use anyhow::{Result, ensure};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix};
use sluice_bgp::wire::attribute::{code, put_header};
use sluice_bgp::wire::{FamilyKey, MessageType, Nlri, Update, header};
use sluice_bgpsim::message::Voice;
use sluice_bgpsim::stream::Stream;
use sluice_bgpsim::table::{Size, Table};
use sluice_bgpsim::workload::ANY_NUMBER;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// A whole table over one session, as a route collector received it.
const REAL: &str = "data/bgp/updates/pch-as3856.fullfeed.20151023.et.mrt.gz";

/// Routes of a generated table, if no real table exists.
const MADE_UP: usize = 500_000;

/// UPDATEs in sequence.
#[derive(Clone, Debug, Default)]
pub struct Feed {
    /// The source of the UPDATEs.
    pub source: String,
    /// The UPDATEs' octets.
    pub octets: Vec<u8>,
    /// The number of elements.
    pub updates: usize,
    /// Prefixes in announcements and withdrawals.
    pub prefixes: usize,
}

impl Feed {
    /// The feed of an MRT trace, with its UPDATEs as of a single session; without a file the shared data's feed, or a
    /// generated one.
    pub fn find(file: Option<&Path>) -> Result<Self> {
        if let Some(file) = file {
            return Feed::of_trace(file);
        }
        let shared = sluice_load::source::shared_folder().map(|folder| folder.join(REAL));
        match shared.filter(|file| file.exists()) {
            Some(file) => Feed::of_trace(&file),
            None => Feed::made_up(MADE_UP),
        }
    }

    fn of_trace(file: &Path) -> Result<Self> {
        let trace = sluice_load::source::unpacked(file)?;
        let mut feed = Feed { source: file.display().to_string(), ..Feed::default() };
        for message in sluice_mrt::messages(&trace) {
            let Ok(Some(frame)) = header::frame(message.octets) else { continue };
            // The End-of-RIB marker has no routes.
            if frame.kind == MessageType::Update && frame.body.len() > 4 {
                feed.push(message.octets);
            }
        }
        ensure!(feed.updates > 0, "{}: no UPDATE in it", feed.source);
        Ok(feed)
    }

    /// So many made-up routes of IPv4.
    pub fn made_up(routes: usize) -> Result<Self> {
        let table = Table::synthetic(Size { v4: routes, v6: 0 }, 3, 1)?;
        let voice = Voice {
            asn: Asn(65001),
            internal: false,
            next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
            next_hop_v6: Ipv6Addr::UNSPECIFIED,
            per_message: ANY_NUMBER,
            paths: 1,
        };
        let mut stream = Stream::default();
        for group in &table.groups {
            voice.announce(&group.attributes, &group.prefixes, &mut stream);
        }
        let mut feed = Feed { source: format!("{routes} made-up routes"), ..Feed::default() };
        (0..stream.len()).for_each(|n| feed.push(stream.octets(n..n + 1)));
        Ok(feed)
    }

    fn push(&mut self, message: &[u8]) {
        self.octets.extend_from_slice(message);
        self.updates += 1;
        let body = message.get(sluice_bgp::wire::HEADER_LEN..).unwrap_or_default();
        // What cannot be read is counted as what the router makes of it: nothing.
        let _ = sluice_bgpsim::routes::each(body, |_: IpPrefix, _| self.prefixes += 1);
    }

    /// The feed with a prefix in each message, so that messages share attributes; IPv4 only.
    #[must_use]
    pub fn split(&self) -> Self {
        let mut split = Feed { source: self.source.clone(), ..Feed::default() };
        let mut rest = &self.octets[..];
        while let Ok(Some(frame)) = header::frame(rest) {
            rest = &rest[frame.len()..];
            let Ok(update) = Update::decode(frame.body) else { continue };
            for prefix in Nlri::<Ipv4Prefix>::new(update.nlri, update.nlri_offset).map_while(Result::ok) {
                let mut message = Vec::new();
                let at = header::start(&mut message, MessageType::Update);
                message.extend_from_slice(&[0, 0]);
                message.extend_from_slice(&(update.attributes.len() as u16).to_be_bytes());
                message.extend_from_slice(update.attributes);
                prefix.put(&mut message);
                header::finish(&mut message, at);
                split.push(&message);
            }
        }
        split
    }

    /// The feed with an additional attribute in every message: a large community (RFC 8092), either distinct in each
    /// message or constant.
    #[must_use]
    pub fn marked(&self, is_unique: bool) -> Self {
        let mut marked = Feed { source: self.source.clone(), ..Feed::default() };
        let mut rest = &self.octets[..];
        let mut number = 0u32;
        while let Ok(Some(frame)) = header::frame(rest) {
            rest = &rest[frame.len()..];
            let Ok(update) = Update::decode(frame.body) else { continue };
            number += u32::from(is_unique);
            let mut attributes = update.attributes.to_vec();
            put_header(&mut attributes, 0xc0, code::LARGE_COMMUNITY, 12);
            [1, 2, number].iter().for_each(|n: &u32| attributes.extend_from_slice(&n.to_be_bytes()));
            let mut message = Vec::new();
            let at = header::start(&mut message, MessageType::Update);
            message.extend_from_slice(&(update.withdrawn.len() as u16).to_be_bytes());
            message.extend_from_slice(update.withdrawn);
            message.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
            message.extend_from_slice(&attributes);
            message.extend_from_slice(update.nlri);
            // A message that is full already stays as it is.
            if message.len() > sluice_bgp::wire::MAX_MESSAGE_LEN {
                continue;
            }
            header::finish(&mut message, at);
            marked.push(&message);
        }
        marked
    }
}
