//! Effects of a change of the configuration, before the commit.

use crate::BgpProcess;
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::speaker::control::{Control, RefreshRefusal};
use sluice_bgp::speaker::{LimitAction, PrefixCounts, Settings};
use sluice_process::EffectKind;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The tables' counts of prefixes of neighbors with an established session.
pub(crate) type Surveyed = RefCell<BTreeMap<PeerIndex, PrefixCounts>>;

fn names(all: &[IpAddr]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

impl BgpProcess {
    /// Asks the tables for the neighbors' counts of prefixes, to judge the bounds of a new configuration.
    pub(crate) async fn count_prefixes(&self) {
        let up = |control: &Control| {
            let up = control.neighbors().filter(|address| control.established(*address).is_some());
            up.filter_map(|address| control.neighbor_index(address)).collect::<Vec<_>>()
        };
        let up = self.read(up).unwrap_or_default();
        let of_table = up.clone();
        let count = move |table: &sluice_bgp::table::Table| {
            of_table.iter().map(|index| table.counts(*index)).collect::<Vec<_>>()
        };
        // Without tables no neighbor has prefixes.
        let tables = self.ask_all(count).await.unwrap_or_default();
        let total = |place: usize| tables.iter().map(|table| table[place]).sum();
        self.surveyed.replace(up.iter().enumerate().map(|(place, index)| (*index, total(place))).collect());
    }

    /// Returns the effects of new settings of the same router, with the affected objects.
    pub(crate) fn effects(&self, settings: &Settings) -> Vec<(EffectKind, Vec<String>)> {
        let interfaces = self.interfaces.borrow();
        let (config, counts) = (settings.config(), self.surveyed.take());
        let now = self.read(|control| control.config()).unwrap_or_default();
        let remarks = now.remarks();
        let mut touched = now.touched(&config, settings.local_as);
        let count = |index| counts.get(&index).copied().unwrap_or_default();
        let overruns = self.read(|control| control.overruns(&config, count)).unwrap_or_default();
        let ends = overruns.iter().filter(|overrun| overrun.action == LimitAction::Shutdown);
        touched.reset.extend(ends.map(|overrun| overrun.neighbor));
        touched.reset.sort_unstable();
        touched.reset.dedup();
        let refusal = |address: &IpAddr| self.read(|control| control.refresh_refusal(*address)).flatten();
        let mut unasked = touched.refreshed.clone();
        unasked.retain(|address| refusal(address) == Some(RefreshRefusal::NotNegotiated));
        let mut asked = touched.refreshed;
        asked.retain(|address| refusal(address).is_none());
        // What was remarked before is not repeated.
        let new = config.remarks().into_iter().filter(|remark| !remarks.contains(remark));
        let known = now.address_remarks(&self.bmp.settings(), &interfaces);
        let addresses = config.address_remarks(&settings.bmp.station, &interfaces);
        let addresses = addresses.into_iter().filter(|remark| !known.contains(remark));
        let notes = overruns.iter().map(ToString::to_string).chain(new).chain(addresses);
        vec![
            (EffectKind::SessionReset, names(&touched.reset)),
            (EffectKind::Refiltered, names(&touched.refiltered)),
            (EffectKind::Refreshed, names(&asked)),
            (EffectKind::NotRefreshed, names(&unasked)),
            (EffectKind::Started, names(&touched.started)),
            (EffectKind::Stopped, names(&touched.stopped)),
            (EffectKind::Noted, notes.collect()),
        ]
    }
}
