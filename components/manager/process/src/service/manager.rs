//! The interface that the manager serves.

use crate::audit::record::Act;
use crate::configure::people::user_name;
use crate::service::Served;
use crate::supervise::credentials;
use crate::supervise::memory::{Memory, memory_of};
use crate::supervise::pins;
use crate::supervise::processes::usage_of;
use crate::supervise::replace::handover;
use crate::supervise::replace::start_again;
use crate::supervise::watch;
use sluice_manager::{Input, Phase};
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};

/// The number of the refusal to restart a component that does not run, and did not come up.
const NOT_STARTED: u32 = 2;

/// The number of the refusal of a bpffs.
const NO_PINS: u32 = 3;

/// The most records of the audit in an answer.
const MOST_RECORDS: usize = 1000;

impl pb::Helpers for Served {
    async fn fetch_credentials(
        &self,
        ctx: &CallContext,
        request: pb::FetchCredentialsRequest,
    ) -> Result<pb::FetchCredentialsReply, XrlError> {
        let state_dir = &self.options.source.state_dir;
        let read = |name: &String| credentials::read(state_dir, &ctx.principal, name);
        let files: Result<Vec<Vec<u8>>, _> = request.names.iter().map(read).collect();
        let files = files.map_err(|error| XrlError::application(1, error.to_string()))?;
        Ok(pb::FetchCredentialsReply { files })
    }

    async fn run(&self, ctx: &CallContext, request: pb::RunRequest) -> Result<pb::RunReply, XrlError> {
        let run = self.run_helpers(&ctx.principal, request.helpers);
        run.map_err(|error| XrlError::application(1, error.to_string()))?;
        Ok(pb::RunReply {})
    }
}

impl pb::Manager for Served {
    async fn get_processes(
        &self,
        _ctx: &CallContext,
        _request: pb::GetProcessesRequest,
    ) -> Result<pb::GetProcessesReply, XrlError> {
        watch::look(self).await;
        let own = usage_of(std::process::id());
        let uptime_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(0);
        let mut processes = vec![pb::Process {
            component: "manager".into(),
            pid: own.pid,
            state: "running".into(),
            restarts: 0,
            uptime_ms,
            memory_bytes: own.memory_bytes,
            peak_memory_bytes: own.peak_memory_bytes,
            cpu_ms: own.cpu_ms,
            uid: own.uid,
            last_exit: String::new(),
            degraded: self.own_degraded(),
            user: user_name(own.uid),
        }];
        self.driver.read(|manager| {
            // Who has ended and is not wanted any more is none of the router's processes.
            for c in manager.components().filter(|c| c.phase != Phase::Stopped) {
                let usage = self.processes.usage(&c.spec.name);
                processes.push(pb::Process {
                    component: c.spec.name.clone(),
                    pid: usage.pid,
                    state: c.phase.name().into(),
                    restarts: c.restarts,
                    uptime_ms: usage.uptime_ms,
                    memory_bytes: usage.memory_bytes,
                    peak_memory_bytes: usage.peak_memory_bytes,
                    cpu_ms: usage.cpu_ms,
                    uid: usage.uid,
                    last_exit: c.last_exit.clone(),
                    degraded: self.component_degraded(&c.spec.name),
                    user: user_name(usage.uid),
                });
            }
        });
        for helper in self.helpers.running() {
            let usage = usage_of(helper.pid);
            processes.push(pb::Process {
                component: helper.name,
                pid: helper.pid,
                state: "running".into(),
                restarts: helper.restarts,
                uptime_ms: usage.uptime_ms,
                memory_bytes: usage.memory_bytes,
                peak_memory_bytes: usage.peak_memory_bytes,
                cpu_ms: usage.cpu_ms,
                uid: usage.uid,
                last_exit: helper.last_end,
                degraded: String::new(),
                user: user_name(usage.uid),
            });
        }
        Ok(pb::GetProcessesReply { processes, version: env!("CARGO_PKG_VERSION").into(), uptime_ms })
    }

    async fn get_memory(
        &self,
        _ctx: &CallContext,
        _request: pb::GetMemoryRequest,
    ) -> Result<pb::GetMemoryReply, XrlError> {
        let mut running = vec![("manager".to_owned(), std::process::id())];
        self.driver.read(|manager| {
            let names = manager.components().map(|component| &component.spec.name);
            running.extend(names.map(|name| (name.clone(), self.processes.pid(name))));
        });
        running.extend(self.helpers.running().into_iter().map(|helper| (helper.name, helper.pid)));
        let measured = |(component, pid): (String, u32)| {
            let Memory { resident_bytes, proportional_bytes, heap_bytes } = memory_of(pid)?;
            Some(pb::ProcessMemory { component, pid, resident_bytes, proportional_bytes, heap_bytes })
        };
        Ok(pb::GetMemoryReply { processes: running.into_iter().filter_map(measured).collect() })
    }

    async fn get_denials(
        &self,
        _ctx: &CallContext,
        _request: pb::GetDenialsRequest,
    ) -> Result<pb::GetDenialsReply, XrlError> {
        Ok(self.denials.listed())
    }

    async fn get_security(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSecurityRequest,
    ) -> Result<pb::GetSecurityReply, XrlError> {
        Ok(self.security())
    }

    async fn mount_pins(
        &self,
        _ctx: &CallContext,
        _request: pb::MountPinsRequest,
    ) -> Result<pb::MountPinsReply, XrlError> {
        let user = self.processes.confinement.user(pins::OWNER);
        user.map_err(pins::PinsError::from)
            .and_then(|user| pins::mount(&self.options.run_dir, user))
            .map_err(|error| XrlError::application(NO_PINS, error.to_string()))?;
        Ok(pb::MountPinsReply {})
    }

    async fn read_audit(
        &self,
        _ctx: &CallContext,
        request: pb::ReadAuditRequest,
    ) -> Result<pb::ReadAuditReply, XrlError> {
        let records = self.audit.read().await.map_err(|error| XrlError::application(1, error.to_string()))?;
        let most = if request.last == 0 { MOST_RECORDS } else { (request.last as usize).min(MOST_RECORDS) };
        let count = records.len() as u64;
        let shown = records.into_iter().rev().take(most).map(|record| pb::AuditRecord {
            number: record.number,
            time_unix_ms: record.time_unix_ms,
            who: record.who.name().into(),
            uid: record.who.uid,
            pid: record.who.pid,
            act: record.act.name().into(),
            lines: record.lines,
            result: record.result,
            revision: record.revision,
        });
        Ok(pb::ReadAuditReply { records: shown.collect(), count })
    }

    async fn stop_router(
        &self,
        ctx: &CallContext,
        _request: pb::StopRouterRequest,
    ) -> Result<pb::StopRouterReply, XrlError> {
        let work = async {
            self.service_manager.stopping();
            self.driver_later(Input::StopAll);
            Ok(pb::StopRouterReply {})
        };
        self.audited(ctx, Act::Stop, Vec::new(), |_| None, work).await
    }

    async fn restart(
        &self,
        ctx: &CallContext,
        request: pb::RestartRequest,
    ) -> Result<pb::RestartReply, XrlError> {
        let work = async {
            let waited = self.phase(&request.component).is_some_and(start_again::has_not_come_up);
            let outcome = handover::hand_over(self, &request.component, None, false).await;
            outcome.map_err(|error| {
                // Where there is no process there is none that goes on.
                let ended = self.phase(&request.component).is_some_and(|phase| phase != Phase::Ready);
                XrlError::application(if waited || ended { NOT_STARTED } else { 1 }, error.to_string())
            })
        };
        self.audited(ctx, Act::Restart, vec![request.component.clone()], |_| None, work).await
    }

    async fn upgrade(
        &self,
        ctx: &CallContext,
        request: pb::UpgradeRequest,
    ) -> Result<pb::RestartReply, XrlError> {
        let lines = vec![request.component.clone(), request.binary.clone()];
        let work = async {
            let binary = Some(request.binary.into());
            let outcome = handover::hand_over(self, &request.component, binary, request.no_loss).await;
            outcome.map_err(|error| XrlError::application(1, error.to_string()))
        };
        self.audited(ctx, Act::Upgrade, lines, |_| None, work).await
    }
}
