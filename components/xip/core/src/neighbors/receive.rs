//! Frames: their checks, and their dispatch by message type.

use super::io::Output;
use super::state::Neighbors;
use crate::wire::Mac;
use crate::wire::nwp::{Form, Message};
use sluice_base::{Instant, InterfaceIndex};
use sluice_machine::Outbox;

impl Neighbors {
    /// Receives a frame: drops frames from this host, from groups of hosts, and with a sender that is not the frame's source.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        interface: InterfaceIndex,
        source: Mac,
        octets: &[u8],
        out: &mut Outbox<Output>,
    ) {
        let Some(link) = self.links.get(&interface) else {
            self.drops.count("unknown-link");
            return;
        };
        let (own, form): (Mac, Form) = (link.settings.mac, link.settings.form);
        if source == own {
            self.drops.count("own-address");
            return;
        }
        if !source.is_station() {
            self.drops.count("group-address");
            return;
        }
        let message = match Message::decode(octets, form) {
            Ok(message) => message,
            Err(error) => {
                self.drops.count_malformed(error);
                return;
            }
        };
        let sender = match &message {
            Message::Announcement(announcement) => announcement.sender,
            Message::List(_) => source,
            Message::Probe(probe) => probe.source,
            Message::Challenge(challenge) => challenge.sender,
            Message::Response(response) => response.sender,
        };
        if sender != source {
            self.drops.count("forged-sender");
            return;
        }
        match message {
            Message::Announcement(announcement) => {
                self.receive_announcement(now, interface, &announcement, out);
            }
            Message::List(list) => self.receive_list(now, interface, &list, out),
            Message::Probe(probe) if probe.destination != own => self.drops.count("misdirected"),
            Message::Probe(probe) => self.receive_probe(now, interface, probe, out),
            Message::Challenge(challenge) => self.receive_challenge(now, interface, &challenge, out),
            Message::Response(response) => self.receive_response(now, interface, &response, out),
        }
    }
}
