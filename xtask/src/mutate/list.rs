//! The bugs: a file, a text that the file has exactly once, and the replacement.

/// A bug to seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mutation {
    /// The bug's name.
    pub name: &'static str,
    /// The changed file.
    pub file: &'static str,
    /// The original text, exactly once in the file.
    pub find: &'static str,
    /// The replacement.
    pub replace: &'static str,
}

/// Declares a list of bugs in a component's core, file by file.
macro_rules! mutations {
    ($(#[$doc:meta])* $list:ident in $component:literal; $($file:literal { $($name:literal: $find:literal => $replace:literal;)* })*) => {
        $(#[$doc])*
        pub const $list: &[Mutation] = &[$($(Mutation {
            name: $name,
            file: concat!("components/", $component, "/core/src/", $file),
            find: $find,
            replace: $replace,
        },)*)*];
    };
}

pub(super) use mutations;

mutations! {
    /// Bugs that networks of whole routers find, file by file.
    MUTATIONS in "bgp";
    "shard/loc_rib/decision.rs" {
        "decision-local-pref-inverted": "|c| Reverse(c.local_pref)" => "|c| c.local_pref";
        "decision-path-length-skipped": "keep(&mut field, Elimination::PathLength, lost, |c| c.path_length);" => "";
        "decision-path-length-inverted": "|c| c.path_length)" => "|c| Reverse(c.path_length))";
        "decision-origin-skipped": "keep(&mut field, Elimination::Origin, lost, |c| c.origin);" => "";
        "decision-origin-inverted": "|c| c.origin)" => "|c| Reverse(c.origin))";
        "decision-med-skipped": "keep_lowest_med(&mut field, self.rules.always_compare_med, lost);" => "";
        "decision-missing-med-best": "if self.missing_med_worst { u32::MAX } else { 0 }" => "0";
        "decision-med-never-of-all": "(compares_all || n.neighbor_as == neighbor_as)" => "(n.neighbor_as == neighbor_as)";
        "decision-med-inverted": "n.med < med" => "n.med > med";
        "decision-med-of-any-as": "(compares_all || n.neighbor_as == neighbor_as) && " => "";
        "decision-external-skipped": "keep(&mut field, Elimination::External, lost, |c| info(c).internal);" => "";
        "decision-external-inverted": "|c| info(c).internal)" => "|c| !info(c).internal)";
        "decision-cost-skipped": "keep(&mut field, Elimination::InteriorCost, lost, |c| c.cost);" => "";
        "decision-cost-inverted": "|c| c.cost)" => "|c| Reverse(c.cost))";
        "decision-router-id-inverted": "Elimination::RouterId, &mut lost, id);" => "Elimination::RouterId, &mut lost, |c| Reverse(id(c)));";
        "decision-newcomer-overlooked": "loses(*new).is_some() && " => "";
        "decision-replaced-overlooked": "replaced.is_none_or(did_not_matter)" => "(replaced.is_none_or(did_not_matter) || true)";
        "decision-unreachable-used": "Resolution::Unreachable => unusable(Elimination::NextHopUnreachable)," => "Resolution::Unreachable => Ok((set, 0)),";
        "decision-unconnected-used": "Resolution::Reachable { connected: false, .. } if" => "Resolution::Reachable { connected: false, metric: sluice_base::Metric(u32::MAX) } if";
    }
    "shard/entry/peer_in.rs" {
        "deletion-never-begins": "self.stale = self.paths;" => "";
        "deletion-generation-stays": "self.generation = self.generation.wrapping_add(1);" => "";
    }
    "shard/adj_rib_in/deletion.rs" {
        "deletion-skips-first-entry": "self.deletion.next = 0;" => "self.deletion.next = 1;";
    }
    "shard/mod.rs" {
        "rib-restart-forgotten": "self.rib = RibBranch::new(self.core.loc_rib.queue.end());" => "";
    }
    "shard/upkeep.rs" {
        "peer-that-left-holds-the-queue": "core.loc_rib.queue.trim(&mut core.adj_rib_in.entries, place, |id| freed.push(id));" => "core.loc_rib.queue.trim(&mut core.adj_rib_in.entries, place, |_| {});";
    }
    "shard/adj_rib_in/paths.rs" {
        "deletion-counts-wrong": "peer.note_gone(path.generation);" => "";
        "deletion-announced-again-is-stale": "core::mem::replace(&mut path.generation, generation);" => "path.generation;";
        "deletion-misses-announced-again": "known.note_gone(generation_before);" => "";
        "withdrawal-ignored": "self.remove_path(id, position, provenance, out);" => "";
    }
    "shard/loc_rib/selection.rs" {
        "decide-attributes-do-not-count": "let has_changed = best != old;" => "let has_changed = best.map(|n| n.peer) != old.map(|o| o.peer);";
    }
    "shard/queue.rs" {
        "queue-loses-changes": "entry.queued = mark(lane, self.lanes[lane].end());" => "entry.queued = mark(lane, self.lanes[lane].end().wrapping_sub(1));";
        "queue-trims-one-too-many": "while lane.start < place.0[number] {" => "while lane.start <= place.0[number] {";
        "queue-compact-moves-readers-wrong": "u64::from(place < cursor.0[number])" => "u64::from(place <= cursor.0[number])";
        "queue-background-never-has-a-share": "(limit / BACKGROUND_SHARE).max(left - (end - *place) as usize).max(1)" => "left - (end - *place) as usize";
        "queue-recent-changes-wait": "self.is_background && !self.is_recent(&entries[id])" => "self.is_background";
        "queue-entry-never-leaves": "entry.set_queued(false);" => "";
    }
    "shard/adj_rib_out/branch.rs" {
        "branch-forgets-what-it-told": "self.adj_rib_out.replace(entry, source)" => "self.advertised(entry)";
        "branch-newcomer-misses-first-entry": "Dump { next: 0, again: false }" => "Dump { next: 1, again: false }";
        "branch-refresh-tells-nothing": "(dump.again || !known)" => "!known";
        "branch-dump-ends-early": "(to < entries.end()).then_some(dump)" => "None";
    }
    "shard/adj_rib_out/group.rs" {
        "groups-merge-unsettled": "self.blocks.is_empty() && self.branch" => "self.branch";
    }
    "shard/adj_rib_out/groups.rs" {
        "groups-split-loses-blocks": "blocks: group.blocks.clone()," => "blocks: VecDeque::new(),";
    }
    "shard/adj_rib_out/fill.rs" {
        "groups-message-skipped": "member.message += 1;" => "member.message += 2;";
    }
    "shard/adj_rib_out/pack.rs" {
        "pack-sender-is-told-its-own": "match (message.source == member, message.kind) {" => "match (false, message.kind) {";
        "pack-replaced-is-not-withdrawn": "source != Source::NONE && item.before != Source::NONE && item.before" => "false && item.before";
    }
    "shard/adj_rib_out/export.rs" {
        "export-next-hop-not-rewritten": "self.is_own = !(key.internal || is_passed_on)\n            || originated" => "self.is_own = originated";
        "export-route-server-is-next-hop": "let is_passed_on = key.transparent && !from_inside;" => "let is_passed_on = false;";
        "export-reflected-as-own": "originator: source.router_id," => "originator: RouterId(1),";
        "export-cluster-missing": "(code::CLUSTER_LIST, reflection.is_some())," => "(code::CLUSTER_LIST, false),";
        "export-neighbors-as-stays": "match key.overridden_as {" => "match key.overridden_as.filter(|_| false) {";
        "export-own-next-hop-inside": "(key.next_hop_self && !from_inside)" => "!from_inside";
        "export-med-goes-on": "code::MULTI_EXIT_DISC\n                    if !key.internal && !key.transparent && !originated && !route.has_own_med => {}" => "";
        "export-customers-routes-unmarked": "key.relationship.is_some_and(Relationship::marks_sent)" => "false";
    }
    "shard/adj_rib_out/export.rs" {
        "export-local-pref-inside-lost": "&local_pref.to_be_bytes()" => "&0u32.to_be_bytes()";
    }
    "shard/adj_rib_out/export_view.rs" {
        "long-lived-sent-to-all": "(self.long_lived_stale || !adj_rib_in.sets.is_long_lived(path.set))" => "(self.long_lived_stale || path.set.0 < u32::MAX)";
        "export-internal-is-reflected": "!is_inside || self" => "true || self";
        "export-clients-hear-nothing-of-each-other": "(true, true) => self.between_clients," => "(true, true) => false,";
        "export-others-hear-nothing-of-clients": "(from_client, to_clients) => from_client || to_clients," => "(_, to_clients) => to_clients,";
        "export-no-export-ignored": "adj_rib_in.sets[path.set].view.reach >= reach\n                || self" => "true || self";
        "export-route-server-obeys-communities": "self.transparent && is_of_client &&" => "false && is_of_client &&";
        "export-route-server-ignores-marks": "(reach <= Reach::Customers || !is_marked())" => "(reach <= Reach::Customers || !is_marked() || true)";
        "export-valley": "Some(_) => Reach::Everybody," => "Some(_) => Reach::Customers,";
    }
    "shard/loc_rib/rib.rs" {
        "rib-hears-of-own-networks": "!path.peer.is_own()" => "true";
    }
    "shard/loc_rib/rib.rs" {
        "rib-distance-swapped": "if internal { (Distance::IBGP, INTERNAL) }" => "if !internal { (Distance::IBGP, INTERNAL) }";
    }
    "shard/resolver.rs" {
        "resolver-forgets-to-ask-again": "self.register_inside(valid, out);" => "";
        "resolver-answer-changes-nothing": "hop.redecide = Some((0..hop.log.len(), provenance));" => "";
        "resolver-decides-one-slice": "hop.redecide = (to < left.end).then_some((to..left.end, provenance));" => "hop.redecide = None;";
        "resolver-does-not-log": "hop.log.push(entry);" => "";
        "resolver-deregisters-what-is-used": "if self.inside(valid).next().is_none() {" => "if self.inside(valid).next().is_none() || true {";
        "resolver-keeps-old-answers": "self.answers.remove(&valid);\n            self.register" => "self.register";
    }
    "reader.rs" {
        "reader-ignores-withdrawn-routes": "self.withdraw(withdrawn, batches)?;" => "";
        "reader-withdraws-in-first-table": "let batch = batches[table].of_mut::<P>();" => "let batch = batches[0].of_mut::<P>();";
    }
    "attributes/scan.rs" {
        "reader-accepts-loops": "_ if self.is_loop => Verdict::Loop," => "";
        "reader-own-as-once-too-often": "self.path.loops > rules.allow_as_in.into();" => "self.path.loops > usize::from(rules.allow_as_in) + 1;";
        "reader-cluster-is-the-router": "if is_originator { rules.router_id } else { rules.cluster_id }" => "rules.router_id";
        "reader-accepts-leaks": "_ if self.is_leak => Verdict::Leak," => "";
        "reader-ignores-missing-attributes": "self.check_mandatory(update, rules);" => "";
    }
    "attributes/canonical.rs" {
        "canonical-relationship-unmarked": "put_only_to_customer(asn, out);\n        }" => "}";
        "canonical-local-pref-ignored": "out.extend_from_slice(&local_pref.to_be_bytes());" => "out.extend_from_slice(&100_u32.to_be_bytes());";
    }
    "session/states/established.rs" {
        "session-hold-timer-not-restarted": "Event::Keepalive | Event::Update => fsm.restart_hold(cx.now)," => "Event::Keepalive | Event::Update => {}";
        "session-keepalives-not-sent": "Event::Expired(Timer::Keepalive) => fsm.send_keepalive(cx)," => "Event::Expired(Timer::Keepalive) => {}";
        "session-silence-goes-unseen": "Event::Expired(Timer::Hold) => fsm.fail_with(Notification::new(code::HOLD_TIMER, 0), cx)," => "Event::Expired(Timer::Hold) => {}";
    }
    "session/fsm.rs" {
        "session-end-is-not-told": "cx.out.push(Output::Down(reason.clone()));" => "";
    }
    "session/collision.rs" {
        "session-collision-both-lose": "(local, self.presented_as()) < (remote, open.asn())" => "local == remote && open.asn() == self.config.local_as";
    }
    "session/negotiation.rs" {
        "session-longer-hold-time": "open.hold_time.min(config.hold_time)" => "open.hold_time.max(config.hold_time)";
    }
}

mutations! {
    /// Bugs in rules without effect in simulated networks: reflected routes, rare attributes, shared subnets, links
    /// without global addresses, long attributes, misbehaving neighbors, reports. BGP's own tests find them.
    RULE_MUTATIONS in "bgp";
    "shard/loc_rib/decision.rs" {
        "decision-originator-ignored": "view(c).compared_id(info(c).router_id)" => "info(c).router_id";
        "decision-oldest-ignored": "stays.is_some_and(|stays| id(c) != stays)" => "false";
        "decision-cluster-list-skipped": "keep(&mut field, Elimination::ClusterList, &mut lost, |c| view(c).cluster_list_length);" => "";
    }
    "shard/adj_rib_out/fill.rs" {
        "groups-large-routes-uncounted": "block.count_too_large(Source::of(peer), sent);" => "";
    }
    "shard/adj_rib_out/next_hops.rs" {
        "pack-third-party-next-hop-of-itself": "self.is_on_link(octets) && !self.points_back(octets)" => "self.is_on_link(octets)";
        "pack-third-party-next-hop-elsewhere": "self.keeps_third_party && self.is_on_link(octets)" => "self.keeps_third_party";
        "pack-link-local-next-hop-elsewhere": "has_link_local && self.is_on_link(octets)" => "has_link_local";
    }
    "shard/adj_rib_out/pack.rs" {
        "pack-third-party-next-hop-lost": "HopField::ThirdParty => hop.keeps(field)," => "HopField::ThirdParty => false,";
    }
    "shard/adj_rib_out/export.rs" {
        "export-other-as-hides-the-routers": "key.other_as.is_none_or(|other| other.hides_router_as)" => "true";
        "export-link-local-next-hop-inside": " || is_of_a_link;" => ";";
        "export-third-party-of-internal": "self.is_third_party = !key.internal && !originated && !from_inside;" => "self.is_third_party = !key.internal && !originated;";
        "export-non-transitive-communities-leave": "community[0] & NON_TRANSITIVE == 0" => "community[0] & NON_TRANSITIVE == 0 || true";
        "export-own-med-stripped": "&& !originated && !route.has_own_med => {}" => "&& !originated => {}";
        "export-policys-own-next-hop-ignored": "NextHopRule::Own => (self.is_own, self.is_third_party) = (true, false)," => "NextHopRule::Own => {}";
        "export-policys-next-hop-ignored": "NextHopRule::Address(_) => self.is_own = false," => "NextHopRule::Address(_) => {}";
    }
    "shard/adj_rib_out/exporter.rs" {
        "export-large-routes-not-to-old-speakers": "most <= view.longest_message() - ADDED || fits(core, view, &self.subject(core, outcome, best))" => "most <= view.longest_message() - ADDED";
        "export-attributes-removed-in-vain": "if fits(core, view, &Subject::changed(&edited, best.peer)) {" => "if removed.len() == REMOVABLE.len() && fits(core, view, &Subject::changed(&edited, best.peer)) {";
        "export-policy-answers-for-every-prefix": "if !policy.reads_prefix() {" => "if true {";
        "export-policy-changes-forgotten": "            policy.make(&mut route, &mut row.memory);\n" => "";
        "export-results-of-other-changes": "row.outcomes.iter().find(|(made, _)| *made == trace)" => "row.outcomes.iter().find(|(made, _)| made.len() == trace.len())";
    }
    "shard/adj_rib_in/import.rs" {
        "import-policy-answers-for-every-prefix": "if !policy.reads_prefix()\n" => "if true\n";
        "import-results-of-other-changes": "row.accepted.iter().find(|(made, _)| *made == trace)" => "row.accepted.iter().find(|(made, _)| made.len() == trace.len())";
        "import-results-outlive-the-batch": "        self.used = 0;\n        self.last = None;\n" => "        self.used = 0;\n";
    }
    "shard/adj_rib_in/import.rs" {
        "import-policy-changes-forgotten": "        policy.make(&mut route, &mut row.memory);\n" => "";
    }
    "shard/adj_rib_in/refilter.rs" {
        "refilter-never-begins": "self.refilter.begin(peer);" => "";
    }
    "shard/adj_rib_in/refilter.rs" {
        "refilter-ends-early": "self.peers.retain(|known| !known.has_wrapped || next < known.from);" => "self.peers.retain(|known| !known.has_wrapped);";
        "refilter-decides-nothing": "self.decide(id, old, Provenance::NONE);" => "";
    }
    "shard/adj_rib_out/comparison.rs" {
        "reexport-sends-everything": "        !is_alike\n" => "        !is_alike || was_told\n";
        "reexport-misses-what-is-rejected-now": "return was_told || before.is_some() != after.is_some()," => "return before.is_none() && after.is_some(),";
    }
    "shard/adj_rib_out/reexport.rs" {
        "reexport-forgets-what-is-behind": "        self.parts.append(&mut behind);\n" => "";
        "reexport-forgets-what-was-told-since": "            self.split_off(entry, &old);\n" => "";
    }
    "shard/entry/sets.rs" {
        "pairs-are-not-counted": "        pair.references -= 1;\n" => "        pair.references = 0;\n";
        "pairs-lose-what-came": "        self.retain(received);\n        accepted" => "        accepted";
    }
    "shard/adj_rib_in/revalidate.rs" {
        "revalidation-misses-changed-customers": "is_concerned = self.core.meets(id, &walk.changed);" => "";
    }
    "policy/aspa.rs" {
        "aspa-providers-may-not-descend": "Relationship::Provider => AspaProcedure::Downstream," => "Relationship::Provider => AspaProcedure::Upstream,";
        "aspa-sets-are-ignored": "            path.push_set();\n" => "";
        "aspa-route-servers-come-first": ".filter(|_| role != Some(Relationship::RouteServer))" => "";
    }
    "gtsm.rs" {
        "gtsm-octets-of-unknown-origin-are-near": "map_or(!has_octets, |ttl| ttl >= least)" => "is_none_or(|ttl| ttl >= least)";
    }
    "policy/ingress.rs" {
        "ingress-route-server-heeds-shutdown": "heeds_graceful_shutdown: !is_of_client," => "heeds_graceful_shutdown: true,";
        "ingress-marks-twice": ".filter(|_| has(code::ONLY_TO_CUSTOMER).is_none())" => "";
    }
    "policy/bound.rs" {
        "policy-second-decides-although-the-first-did": "Decision::Accept => return Outcome { is_accepted: true, term, reason: None }," => "Decision::Accept => {}";
        "policy-default-accepts": "is_accepted: self.default == DefaultPolicy::Accept, term: None" => "is_accepted: true, term: None";
        "policy-unknown-accepts": "return Some(BoundPolicy::reject_all());" => "return None;";
    }
    "policy/route.rs" {
        "policy-community-kept-empty": ".filter(|v| !v.is_empty())" => ".filter(|_| true)";
        "policy-view-is-stale": "self.view = canonical::view(&self.octets, self.local_as);" => "";
    }
    "speaker/config/neighbor.rs" {
        "external-neighbors-need-no-policy": "let is_trusted = self.peer_as == local_as || self.relationship.is_some();" => "let is_trusted = true;";
        "bounds-end-sessions": "FamilyConfig { maximum_prefixes: other.maximum_prefixes, ..self }" => "self";
    }
    "speaker/config/maximum_prefixes.rs" {
        "bounds-reached-count-as-exceeded": "set.clone().find(|l| l.count > l.bound)" => "set.clone().find(|l| l.count >= l.bound)";
        "bounds-warn-each-time": "of(counts).max(of(raised).min(before))" => "of(counts)";
    }
    "speaker/neighbor/limits.rs" {
        "bounds-count-one-table": "received: sum.received.saturating_add(count.received)," => "received: sum.received.max(count.received),";
    }
    "speaker/peers/limits.rs" {
        "bounds-never-open-again": "let restart_at = after.map(|after| now + after);" => "let restart_at = None;";
        "bounds-never-ask-again": "                self.ask_for_refresh(index, out);\n" => "";
        "bounds-changed-are-not-judged": "                standing.stage = Stage::Below;\n" => "";
    }
    "shard/loc_rib/rib.rs" {
        "rib-next-hop-without-its-interface": "NextHop { interface: hop.interface, ..NextHop::via(hop.address) }" => "NextHop::via(hop.address)";
    }
    "shard/explain/view.rs" {
        "view-advertised-as-received": "let shown = ExportView { four_octet_as: true, ..view.clone() };" => "let shown = ExportView { four_octet_as: true, internal: true, ..view.clone() };";
    }
    "wire/multiprotocol.rs" {
        "reader-unspecified-and-link-local-next-hop": "address.is_unspecified() || address.is_unicast_link_local()" => "address.is_unicast_link_local()";
        "reader-link-local-next-hop-without-interface": "interface: interface.filter(|_| self.is_link_local())" => "interface: interface.filter(|_| false)";
    }
    "wire/as_path.rs" {
        "reader-keeps-confederations": "let as4 = || Segments::as4(as4_path, 0).flatten().filter(|s| s.kind <= AS_SEQUENCE);" => "let as4 = || Segments::as4(as4_path, 0).flatten();";
    }
    "wire/nlri.rs" {
        "reader-accepts-loopback-prefixes": "matches!(addr.octets()[0], 0 | 127)" => "addr.octets()[0] == 0";
        "reader-accepts-prefixes-of-no-host": "matches!(addr.octets()[0], 0 | 127)" => "addr.octets()[0] == 127";
    }
    "attributes/rules.rs" {
        "reader-reset-by-flags-of-routes": "MP_REACH_NLRI NON_TRANSITIVE, flags Withdraw," => "MP_REACH_NLRI NON_TRANSITIVE, flags Reset,";
        "reader-accepts-tlvs-that-do-not-fit": "is_good = element(&mut c).is_some();" => "is_good = element(&mut c).is_some() || c.is_empty();";
        "reader-accepts-sub-tlvs-that-do-not-fit": "(tunnel.is_empty() || is_filled_by(tunnel, sub_tlv)).then_some(())" => "(tunnel.is_empty() || !tunnel.is_empty()).then_some(())";
    }
    "attributes/scan.rs" {
        "reader-accepts-reflected-back": "_ if self.is_reflected_back => Verdict::Reflected," => "";
    }
    "attributes/canonical.rs" {
        "canonical-large-communities-twice": "kept.push(community);\n        }" => "}\n        kept.push(community);";
    }
    "speaker/neighbor/peer.rs" {
        "quiet-neighbor-is-waited-for": "if is_ended { Instant::ZERO } else { self.last_update + quiet }" => "if is_ended { Instant::ZERO } else { return None }";
        "quiet-promise-forgotten": "if negotiated.promises_end_of_rib { QUIET_IN_SPITE_OF_PROMISE }" => "if false { QUIET_IN_SPITE_OF_PROMISE }";
    }
    "speaker/peers/sessions.rs" {
        "quiet-although-updates-come": "peer.read = read;\n            peer.last_update = now;" => "peer.read = read;";
        "untold-family-ended-wrong": "put_end_of_rib(family, &self.identity.codes, &mut octets);" => "put_end_of_rib(crate::family::FamilyIndex::IPV4, &self.identity.codes, &mut octets);";
        "untold-family-not-reported": "out.push(event(address, PeerEvent::NoNextHop(family)));" => "";
    }
    "speaker/peers/registry.rs" {
        "number-given-too-early": "if is_retired && self.is_clean(index) {" => "if is_retired {";
    }
    "speaker/control/wait.rs" {
        "wait-is-not-looked-at": "self.look_at = Some(self.all_announced_by());" => "self.look_at = None;";
    }
    "speaker/control/router.rs" {
        "refresh-without-capability": "Some(negotiated) if !negotiated.route_refresh => Some(RefreshRefusal::NotNegotiated)," => "";
    }
    "intake/remarkable.rs" {
        "malformed-reported-each-time": "kind.suppressed += 1;\n            return false;" => "return true;";
        "malformed-number-lost": "others > 0" => "false";
        "end-of-rib-reported-each-time": "!core::mem::replace(&mut self.ended[family], true)" => "!core::mem::replace(&mut self.ended[family], false)";
    }
    "session/states/established.rs" {
        "session-stalled-peer-stays": "Event::Expired(Timer::SendHold) => fsm.fail_with(Notification::new(code::SEND_HOLD_TIMER, 0), cx)," => "Event::Expired(Timer::SendHold) => {}";
    }
    "session/states/connecting.rs" {
        "reason-no-answer-unsaid": "cx.down = Some(DownReason::ConnectionFailed(ConnectError::NoAnswer));" => "";
        "reason-of-failure-unsaid": "cx.down = Some(DownReason::ConnectionFailed(error));" => "cx.down = Some(DownReason::ConnectionFailed(ConnectError::Other(alloc::format!(\"{error:?}\"))));";
    }
    "session/mod.rs" {
        "session-progress-ignored": "Input::Written => {\n                if self.established().is_some() {" => "Input::Written => {\n                if false {";
    }
    "session/collision.rs" {
        "reason-wrong-as-unsaid": "(received != configured).then_some(" => "(received == configured).then_some(";
    }
    "shard/entry/peer_in.rs" {
        "restart-keeps-nothing": "Retention::Session => (self.stale, 1)," => "Retention::Session => (self.paths, 0),";
        "restart-keeps-what-was-stale": "Retention::Session => (self.stale, 1),\n            Retention::WithEarlier" => "Retention::Session => (self.overdue, 2),\n            Retention::WithEarlier";
    }
    "shard/adj_rib_in/stale.rs" {
        "refilter-works-on-what-became-of-it": "let set = self.adj_rib_in.sets.received(path.attributes);" => "let set = self.adj_rib_in.sets.accepted(path.attributes).unwrap_or(self.adj_rib_in.sets.received(path.attributes));";
        "long-lived-refusal-ignored": "if long_lived::is_refused(octets) {" => "if false {";
        "long-lived-without-mark": "long_lived::put_stale(octets, &mut marked);" => "marked.extend_from_slice(octets);";
    }
    "shard/adj_rib_out/path_choice.rs" {
        "paths-with-other-attributes-not-sent": "if again || !is_sent || due.contains(path)" => "if again || !is_sent";
        "paths-withdrawn-never": "for path in sent.iter().filter(|path| !is_selected(path))" => "for path in sent.iter().filter(|path| !is_selected(path) && false)";
    }
    "shard/adj_rib_in/path_ids.rs" {
        "paths-without-a-bound": "if free < MOST_PATHS {" => "if free < u16::MAX {";
    }
    "shard/entry/lanes.rs" {
        "paths-of-other-identifiers-replaced": "self.peer(path.number) == peer && self.id(entry, path.number) == Some(id)" => "self.peer(path.number) == peer && self.id(entry, path.number) <= Some(id)";
    }
    "session/negotiation.rs" {
        "paths-in-the-wrong-direction": "if *send && config.add_path.receive.has(family)" => "if *receive && config.add_path.receive.has(family)";
    }
    "speaker/neighbor/restart.rs" {
        "restart-after-a-notification": "|| offer.notifications && reason.is_graceful_notification());" => "|| reason.is_graceful_notification());";
        "restart-long-lived-never": "matches!(stay, Stay::Restart(_)) && !has_session && !time.is_zero();" => "false;";
        "restart-without-forwarding": "Stay::Restart(_) => restart.preserved.has(family).then_some(Stay::Restart(stale_until))," => "Stay::Restart(_) => Some(Stay::Restart(stale_until)),";
    }
    "speaker/peers/filters.rs" {
        "restart-advertises-at-once": "self.defers_export && self.identity.is_restarted" => "false";
    }
    "aggregate.rs" {
        "aggregates-have-the-lowest-origin": "self.by_origin.last_key_value()?" => "self.by_origin.first_key_value()?";
    }
    "orf.rs" {
        "filters-decide-by-the-last-match": "matching.min_by_key(" => "matching.max_by_key(";
    }
    "speaker/peers/sessions.rs" {
        "restart-never-ends": "self.drop_stale(index, Families::only(*family), out);" => "";
    }
    "session/config.rs" {
        "send-hold-below-hold": ".max(hold + Duration::from_secs(1))" => "";
        "keepalives-too-seldom": "(hold_time > 0).then(|| wanted.min(third))" => "(hold_time > 0).then_some(wanted)";
    }
    "session/ends.rs" {
        "reason-hidden-by-a-lost-connection": "let is_hidden = reason == DownReason::ConnectionLost && self.has_specific_reason(now);" => "let is_hidden = false;";
        "failed-attempts-are-reported-each-time": "let is_due = report.due <= now;" => "let is_due = true;";
        "failed-attempts-have-the-reason-of-a-commit": "let is_hidden = reason == DownReason::ConnectionLost && self.has_specific_reason(now);" => "let is_hidden = self.last.is_some();";
    }
    "shard/adj_rib_out/group.rs" {
        "groups-drop-unread-blocks": "pending.unread == 0" => "pending.unread <= 1";
    }
    "shard/adj_rib_out/groups.rs" {
        "groups-rest-although-behind": "group.members.iter().filter(|m| is_behind || m.block < end)" => "group.members.iter().filter(|m| m.block < end)";
    }
    "injection/mod.rs" {
        "injection-of-any-peer": "Record::Message(message) if message.peer != self.wanted" => "Record::Message(message) if false";
        "injection-of-own-messages": "Record::Message(message) if message.is_local" => "Record::Message(message) if false";
        "injection-of-any-peers-table": "if !wanted.contains(&entry.peer) {" => "if false {";
        "injection-without-the-sessions-end": "if change.session.addresses.peer() == self.wanted && is_end {" => "if false {";
        "injection-keeps-the-form-of-as-numbers": "reader.set_form(four_octet_as, add_path);" => "reader.set_form(true, add_path);";
        "injection-ends-torn-without-a-word": "None if self.pending.is_empty() => Ok(())," => "None => Ok(()),";
        "injection-mixes-path-ids": "if has_path_ids == self.has_path_ids {" => "if true {";
        "injection-reads-on-after-a-failure": "Err(cause) => self.failed = Some(self.error(cause))," => "Err(cause) => return Err(self.error(cause)),";
    }
}
