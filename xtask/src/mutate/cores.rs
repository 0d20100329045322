//! Bugs in the cores of the RIB, the FEA and the manager, each judged by its own crate's tests.

use super::list::{Mutation, mutations};

mutations! {
    /// Bugs in decisions, next-hop resolution, sweeps, and in the messages to the forwarding engine and watchers.
    RIB_MUTATIONS in "rib";
    "entry/routes.rs" {
        "rib-decision-ignores-distance": "(self.distance(path), self.sets.slot(path.set).set.metric, path.origin)" => "(Distance(0), self.sets.slot(path.set).set.metric, path.origin)";
        "rib-decision-ignores-metric": "(self.distance(path), self.sets.slot(path.set).set.metric, path.origin)" => "(self.distance(path), Metric(0), path.origin)";
        "rib-unusable-distance-used": "self.distance(path) < Distance::UNUSABLE && " => "";
        "rib-rejected-used": " && self.sets.slot(path.set).rejection().is_none()" => "";
        "rib-unresolved-used": "self.is_allowed(path) && group.resolved.is_some() && " => "self.is_allowed(path) && ";
        "rib-own-next-hop-resolved": " && !group.leads_to_itself(prefix)" => "";
    }
    "decide/family.rs" {
        "rib-stale-route-counts-as-fresh": "owner.stale += 1;" => "";
        "rib-change-unseen": "self.downstream.changed.push(prefix);" => "";
        "rib-pass-not-repeated": "Some(_) => self.pass_again = true," => "Some(_) => {}";
        "rib-internal-count-kept": "*count -= 1;" => "";
    }
    "decide/sweep.rs" {
        "rib-sweep-takes-fresh-routes": "p.origin == sweep.origin && p.generation != generation" => "p.origin == sweep.origin";
        "rib-sweep-takes-other-origins": "p.origin == sweep.origin && p.generation != generation" => "p.generation != generation";
        "rib-sweep-stops-early": "                sweep.cursor = Cursor::After(last);\n                false" => "                sweep.cursor = Cursor::After(last);\n                true";
    }
    "decide/import.rs" {
        "rib-policy-of-a-policys-outcome": "shared.sets.source(path.set)" => "path.set";
        "rib-refilter-stops-early": "            self.refilters.push(refilter);\n        }\n        true" => "        }\n        true";
        "rib-refilter-refreshes": "path.provenance, path.generation);" => "path.provenance, shared.origin(path.origin).generation);";
        "rib-answer-for-every-prefix": "(!chain.reads_prefix()).then(BTreeMap::new)" => "Some(BTreeMap::new())";
    }
    "policy.rs" {
        "rib-policy-replaces-tags": ".chain([Tag(number)])" => ".take(0).chain([Tag(number)])";
        "rib-first-tag-decides": "self.set.tags.as_slice().iter().any(" => "self.set.tags.as_slice().iter().take(1).any(";
        "rib-second-policy-overrules": "Verdict { decision: Decision::Accept, .. } => break," => "Verdict { decision: Decision::Accept, .. } => {}";
    }
    "clients/subscriber.rs" {
        "rib-subscriber-told-of-unknown": "self.passed.remove(&prefix)\n" => "self.passed.remove(&prefix) || true\n";
        "rib-subscriber-policy-change-unseen": "if is_changed {" => "if false && is_changed {";
        "rib-external-route-unmarked": "shared.origin(route.origin).external {" => "shared.origin(route.origin).connected {";
    }
    "decide/outcome.rs" {
        "rib-selected-count-kept": "Action::Delete(_) => self.selected_count -= 1," => "Action::Delete(_) => {}";
        "rib-engine-not-told": "entry.set_queued(true);\n            self.fib_queue.push(prefix, sent);" => "entry.set_queued(true);";
    }
    "decide/fib.rs" {
        "rib-connected-installed": "route.filter(|route| !shared.origin(route.origin).connected)?" => "route?";
        "rib-engine-told-again": "if wanted != sent {" => "{";
        "rib-new-engine-gets-nothing": "self.downstream.fib_queue.push(prefix, None);" => "";
    }
    "entry/group.rs" {
        "rib-changed-group-not-sent": "group.is_sent = false;\n            let family = group.family;" => "let family = group.family;";
        "rib-unused-group-not-told": "unused.push(id);" => "";
    }
    "clients/interest.rs" {
        "rib-answer-survives-group": "filter(|(_, r)| r.groups.contains(&group))" => "filter(|(_, r)| r.groups.contains(&group) && false)";
        "rib-answer-survives-overlay": "hit.extend(\n            self.answers.longest_match(changed)" => "hit.extend(\n            self.answers.longest_match(changed).filter(|_| false)";
    }
    "interfaces.rs" {
        "rib-down-interface-forwards": "self.known.get(index).is_some_and(|i| i.running)" => "self.known.get(index).is_some()";
        "rib-broadcast-is-gateway": "found.insert(Address::Ip(Ipv4Addr::from_bits(host.to_bits() | hosts).into()));" => "";
    }
    "next_hops/mod.rs" {
        "rib-group-not-remembered": "self.gateways.note(id, &depends);" => "";
        "rib-flip-not-decided": "family.redecide_internal(shared, provenance);\n                family.start_pass();" => "";
        "rib-flip-of-the-second-family-not-decided": "if result.flips && !flipped.contains(&of)" => "if result.flips && flipped.is_empty()";
        "rib-change-not-followed": "changed.into_iter().flat_map(|prefix| self.gateways.concerned(prefix)).collect()" => "BTreeSet::new()";
        "rib-other-prefix-not-decided": "moved.iter().for_each(|gateway| family.redecide_covering(shared, *gateway, provenance));" => "";
    }
    "entry/gateways.rs" {
        "rib-longer-prefix-concerned-only": "**len <= prefix.len()" => "**len < prefix.len()";
    }
    "decide/candidates.rs" {
        "rib-aggregate-resolves": "self.is_allowed(path) && !(drops && self.origin(path.origin).external)" => "self.is_allowed(path)";
        "rib-external-on-a-subnet": "found.retain(|candidate| !shared.origin(candidate.origin).external);" => "";
    }
    "next_hops/reach.rs" {
        "rib-gateway-of-itself": "            && !self.table.is_no_gateway(gateway)\n" => "";
        "rib-backup-not-used": "hop.is_backup && has_primary;" => "hop.is_backup;";
        "rib-identifier-for-the-ip-engine": "(!is_identifier || self.family.ip().is_none())" => "(is_identifier || self.family.ip().is_none())";
        "rib-loop-walked": "if hops.iter().any(|h| h.gateway.is_some_and(|g| self.path.contains(&g))) {" => "if false {";
        "rib-unusable-gateway-forgotten": "self.note_unusable(announced);" => "";
        "rib-cost-of-the-external-route": "ends.metric.unwrap_or(Metric(0))" => "metric";
    }
    "next_hops/answer.rs" {
        "rib-answer-for-all-though-one-leads-back": "let is_single = groups.len() > " => "let is_single = false && groups.len() > ";
        "rib-answer-holds-for-the-routes-own-next-hop": "others.chain(looked_up.iter().map(|looked_up| looked_up.gateway))" => "others";
    }
}

mutations! {
    /// Bugs in routes, next-hop objects, resynchronization, repair, interfaces and rights.
    FEA_MUTATIONS in "fea";
    "fib/mod.rs" {
        "fea-deleted-route-stays": "out.push(self.delete_op(prefix, route.scope(), provenance));\n        }\n        self.leave_group" => "}\n        self.leave_group";
        "fea-changed-group-not-written": "group.retried = false;\n                    group.write(pool, out);" => "group.retried = false;";
        "fea-routes-do-not-move": "(group.owner, group.moved_to, group.due) = (None, Some(new), true);" => "(group.owner, group.moved_to, group.due) = (None, Some(new), false);";
        "fea-used-object-deleted": "self.groups.get(n).is_none_or(|g| g.refs > 0 || g.owner.is_some())" => "self.groups.get(n).is_none_or(|g| g.owner.is_some())";
        "fea-replaced-group-kept": "self.write(route.prefix, group, replace, route.provenance, out);\n        self.leave_group(old.group(), pool, out);" => "self.write(route.prefix, group, replace, route.provenance, out);";
        "fea-announced-route-swept": "entry.set_announced(true);" => "";
        "fea-refused-count-kept": "self.refused -= usize::from(route.standing() == Standing::Refused);" => "";
        "fea-unused-groups-kept": "group.owner = None;\n                    }\n                    self.drop_if_unused(n, pool, out);\n                }\n                None" => "}\n                }\n                None";
    }
    "fib/replay.rs" {
        "fea-refused-route-replayed": ".filter(|_| route.standing() == Standing::Installed)?" => "?";
        "fea-group-not-replayed": "ControlFlow::Break(n + 1)" => "ControlFlow::Break(n + 2)";
    }
    "engine/set.rs" {
        "fea-later-stage-admitted": "if is_later {" => "if false && is_later {";
        "fea-silent-loss-stays-beside": "refusal.map_or(true, |refusal| op.is_satisfied_despite(refusal))" => "refusal.is_err()";
    }
    "machine.rs" {
        "fea-operation-under-way-replayed": "if !out.is_empty() {" => "if false {";
    }
    "fib/resync.rs" {
        "fea-resync-sweeps-nothing": "self.routes.values_mut().for_each(|r| r.set_announced(false));" => "";
        "fea-damage-overlooked": "Standing::Installed if wanted == Some(target) => Observation::Fine," => "Standing::Installed => Observation::Fine,";
        "fea-group-damage-overlooked": "Some(live == shown)" => "Some(live == shown || true)";
    }
    "fib/group.rs" {
        "fea-dead-member-written": "pool.get(member.number).is_some_and(|m| m.dead.is_none())" => "pool.get(member.number).is_some()";
        "fea-weights-lost": "is_backup: hop.is_backup, number, weight: hop.weight.max(1) }" => "is_backup: hop.is_backup, number, weight: 1 }";
        "fea-dead-group-not-removed": "if let (Some(id), None) = (self.object, &self.dead) {" => "if let (Some(id), Some(_)) = (self.object, &self.dead) {";
    }
    "fib/refusal.rs" {
        "fea-refusal-not-noted": "self.stand(prefix, route.group(), Standing::Refused);" => "";
        "fea-refused-replacement-stays": "refused.replace && refused.refusal.kind != RefusalKind::Exists" => "false";
        "fea-lost-group-not-written": "group.gone = true;\n        }\n    }" => "let _ = group;\n        }\n    }";
    }
    "members.rs" {
        "fea-member-leaks": "if entry.refs == 0 {\n                self.remove(n, out);" => "if false {\n                self.remove(n, out);";
        "fea-member-not-revived": "self.revived.push(n);" => "";
        "fea-member-freed-too-early": "self.leaving.push(n);" => "";
    }
    "repair.rs" {
        "fea-fight-never-slows": "(*pause * 2).min(LONGEST_PAUSE)" => "FIRST_PAUSE";
        "fea-damage-forgotten": "watch.waiting = true;" => "";
    }
    "interface.rs" {
        "fea-address-gone-not-told": "known.interface.addresses.remove(place);\n            out.push(changed(&known.interface));" => "known.interface.addresses.remove(place);";
        "fea-address-not-set-again": "if reconfigure {" => "if false {";
        "fea-own-address-stays": "out.push(Output::Engine(EngineOp::DeleteAddress { interface, address: *address }));" => "let _ = address;";
        "fea-vanished-link-stays": "self.known.iter().filter(|(_, k)| !k.seen)" => "self.known.iter().filter(|(_, k)| !k.seen && false)";
    }
    "socket.rs" {
        "fea-any-group-joined": "reception.groups.iter().find(|group| !is_named(group))" => "reception.groups.iter().find(|_| false)";
        "fea-any-icmpv6-received": "rights.icmpv6.contains(number)" => "!rights.icmpv6.is_empty()";
    }
}

mutations! {
    /// Bugs in supervision, commits, replacement of processes, editors and the watchdog.
    MANAGER_MUTATIONS in "manager";
    "machine.rs" {
        "manager-starts-before-needs": "c.spec.needs.iter().all(|n| self.phase(n) == Some(Phase::Ready))" => "c.spec.needs.iter().all(|n| self.phase(n).is_some())";
        "manager-ends-what-is-needed": ".filter(|c| !self.is_needed(&c.spec.name))" => "";
        "manager-restart-counts-as-death": "if restarting {\n            return self.set_phase" => "if false {\n            return self.set_phase";
        "manager-unwanted-starts-again": "if !component.wanted {\n            return self.set_phase(now, name, Phase::Stopped, None);" => "if false {\n            return self.set_phase(now, name, Phase::Stopped, None);";
        "manager-pardon-waits": "if matches!(component.phase, Phase::BackingOff | Phase::Failing) {\n            self.set_phase" => "if false {\n            self.set_phase";
        "manager-failed-configuration-lives": "out.push(Output::Kill(name));\n                }\n            }\n            Input::Restart" => "}\n            }\n            Input::Restart";
        "manager-import-starts-anew": "self.handle(now, Input::Adopt(spec), out);" => "let _ = spec;";
        "manager-stop-never-ends": "out.push(Output::AllStopped);" => "";
    }
    "backoff.rs" {
        "manager-backoff-never-grows": "self.0 = (wait * 2).min(Self::LONGEST);" => "";
        "manager-backoff-unbounded": "self.0 = (wait * 2).min(Self::LONGEST);" => "self.0 = wait * 2;";
        "manager-backoff-after-sound-life": "if lived >= Self::SOUND_LIFE { Self::FIRST }" => "if false { Self::FIRST }";
    }
    "component.rs" {
        "manager-trial-never-ends": "self.on_trial &= lived < CrashBudget::SOUND_LIFE;" => "";
        "manager-never-falls-back": "self.on_trial && self.budget.deaths() >= CrashBudget::ON_TRIAL" => "false";
    }
    "crash_budget.rs" {
        "manager-old-deaths-count": "now.saturating_since(*first) > Self::WITHIN" => "false";
        "manager-one-death-too-few": "self.is_spent |= self.deaths.len() > Self::DEATHS;" => "self.is_spent |= self.deaths.len() >= Self::DEATHS;";
    }
    "commit.rs" {
        "commit-check-applies": "if self.check_only {" => "if false {";
        "commit-undoes-one-too-few": "Phase::Applying { step } => step + 1," => "Phase::Applying { step } => step,";
        "commit-undoes-in-order": "in self.steps.iter().enumerate().rev() {" => "in self.steps.iter().enumerate() {";
        "commit-started-stay": "waiting.insert(class.clone());\n                    out.push(Output::Stop(class.clone()));" => "waiting.insert(class.clone());";
        "commit-not-stored": "self.phase = Phase::Storing;\n        out.push(Output::Store);" => "self.phase = Phase::Over;\n        out.push(Output::Done(Ok(BTreeMap::new())));";
        "commit-not-offered": "Phase::Preparing { waiting } if waiting.is_empty() && self.is_shared => {" => "Phase::Preparing { waiting } if waiting.is_empty() && false => {";
        "commit-not-decided": "None if self.is_shared => {" => "None if false => {";
        "commit-decision-failure-not-undone": "self.undo(&reason, out)," => "drop(reason),";
        "commit-store-failure-not-undone": "self.undo(&format!(\"it could not be stored: {reason}\"), out);" => "let _ = reason;";
        "commit-new-share-given-too-early": "Phase::Applying { step } => place.is_some_and(|place| place <= step)," => "Phase::Applying { .. } => place.is_some(),";
    }
    "handover.rs" {
        "handover-old-name-not-returned": "if self.step == Step::TakingOver {\n            out.push(Output::Return);" => "if false {\n            out.push(Output::Return);";
        "handover-end-not-told": "out.push(Output::Died(how));" => "let _ = how;";
        "handover-old-never-killed": "self.go(now, Step::Ending);\n                    out.push(Output::KillOld);" => "self.go(now, Step::Ending);";
    }
    "editors.rs" {
        "editors-exclusive-shares": "e.mode == Mode::Exclusive && Some(**other) != id" => "false && Some(**other) != id";
        "editors-lease-not-renewed": "editor.expires = now + Self::LEASE;" => "";
        "editors-unbounded": "if self.editors.len() >= Self::MOST {" => "if false {";
    }
    "watchdog.rs" {
        "watchdog-busy-is-stuck": "used * u128::from(Self::IDLE_SHARE) < silence.as_millis()" => "used < silence.as_millis() * 10";
        "watchdog-own-sleep-counts": "if now.saturating_since(last.looked) > self.limits.every * Self::LATE {" => "if false {";
        "watchdog-never-circling": "if silence >= self.limits.longest {" => "if false {";
    }
}
