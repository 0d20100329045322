//! The interface `Programs`: programs that other components have in the chain, and the maps of these programs.
//!
//! A component asks for a program by its name and gets a token for each of its maps. The component fetches the descriptors
//! as those of sockets ([`crate::sockets`]), and fills the maps without any privilege. The maps are pinned: a component that
//! asks again, as after a restart of itself or of the FEA, gets the same maps.

use super::fast_path::{FastPath, ProgramWishes};
use super::frame_sockets::{self, FrameSockets};
use crate::FeaProcess;
use sluice_bpf::devices::Devices;
use sluice_bpf::layout::Slot;
use sluice_bpf::{BpfError, Embedded, Loaded};
use sluice_fea::xdp::programs::{self, Copies, Holder, PROGRAMS, Placements, ProgramRow, Put, Taken};
use sluice_process::clock;
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The number of the refusal where the chain does not run or the kernel refuses.
pub(super) const NOT_AVAILABLE: u32 = 1;
/// The number of the refusal of a slot in which another program stands.
const TAKEN: u32 = 2;

/// The programs of components.
#[derive(Default)]
pub(crate) struct Programs {
    /// The programs that a component may put into the chain, by the component's name.
    rights: RefCell<BTreeMap<String, Vec<String>>>,
    placements: RefCell<Placements>,
    loaded: RefCell<BTreeMap<&'static str, Loaded>>,
    /// The interfaces to which programs send copies, by the program's name.
    devices: RefCell<BTreeMap<&'static str, Devices>>,
    /// The AF_XDP sockets to which programs hand frames.
    pub(super) sockets: FrameSockets,
    wake: Notify,
}

impl Programs {
    /// Sets the rights of components. Programs that are in the chain stay.
    pub(crate) fn set_rights(&self, rights: BTreeMap<String, Vec<String>>) {
        self.rights.replace(rights);
    }

    /// Takes in the programs that an earlier FEA left in the chain. `is_filled` returns true for a slot with a program.
    pub(crate) fn found(&self, is_filled: impl Fn(Slot) -> bool) {
        for row in PROGRAMS.iter().filter(|row| slot(row).is_some_and(&is_filled)) {
            self.placements.borrow_mut().found(clock::now(), row);
        }
        self.wake.notify_one();
    }

    /// Forgets all programs: the chain is gone.
    pub(crate) fn clear(&self) {
        self.placements.take();
        self.loaded.take();
        self.devices.take();
        self.sockets.clear();
    }

    /// Writes the interfaces to which programs send copies.
    pub(crate) fn set_devices(&self, path: &FastPath) {
        let placements = self.placements.borrow();
        for (name, devices) in self.devices.borrow_mut().iter_mut() {
            let Some(row) = programs::row(name) else { continue };
            let seen = path.indices().filter(|(interface, _)| placements.sees(row, interface));
            if let Err(error) = devices.set(seen.map(|(_, index)| index.number()).collect()) {
                warn!(%error, program = row.name, "an interface gets no copies");
            }
        }
    }

    /// Returns the wishes of the programs for an interface.
    pub(crate) fn wishes(&self, interface: &str) -> ProgramWishes {
        let placements = self.placements.borrow();
        let slots = placements.skipped(interface).filter_map(slot_named);
        ProgramWishes {
            skipped: slots.fold(0, |skipped, slot| skipped | 1 << slot.index()),
            promiscuity: placements.promiscuity(interface),
        }
    }

    /// Returns the programs in the chain with their components, for `show forwarding`.
    pub(crate) fn report(&self) -> Vec<pb::ForwardingProgram> {
        let placements = self.placements.borrow();
        let report = |(row, component): (&'static ProgramRow, Option<&str>)| pb::ForwardingProgram {
            name: row.name.into(),
            slot: row.slot.into(),
            component: component.unwrap_or_default().into(),
        };
        placements.iter().map(report).collect()
    }

    /// Returns true if a program sees an interface's frames.
    pub(super) fn sees(&self, row: &ProgramRow, interface: &str) -> bool {
        self.placements.borrow().sees(row, interface)
    }

    /// Checks that one of the components may have a program in the chain, and returns that component.
    pub(super) fn permitted(&self, components: &[String], program: &str) -> Result<String, XrlError> {
        let rights = self.rights.borrow();
        let may = |component: &&String| {
            rights.get(*component).is_some_and(|programs| programs.iter().any(|name| name == program))
        };
        components.iter().find(may).cloned().ok_or_else(|| {
            let who = components.first().map_or("this process", String::as_str);
            XrlError::AccessDenied(format!(
                "{who} may not put the program `{program}` into the path of packets; `[programs] put` in rights.toml allows it"
            ))
        })
    }
}

fn slot_named(name: &str) -> Option<Slot> {
    Slot::ALL.into_iter().find(|slot| slot.name() == name)
}

fn slot(row: &ProgramRow) -> Option<Slot> {
    slot_named(row.slot)
}

/// Returns the row of a program by the name in a request.
pub(super) fn row(name: &str) -> Result<&'static ProgramRow, XrlError> {
    programs::row(name).ok_or_else(|| {
        let known: Vec<&str> = PROGRAMS.iter().map(|row| row.name).collect();
        XrlError::BadArguments(format!("there is no program `{name}`; expected one of {}", known.join(", ")))
    })
}

fn refused(error: &BpfError) -> XrlError {
    XrlError::application(NOT_AVAILABLE, error.to_string())
}

sluice_process::served!(FeaProcess);

impl pb::Programs for Served {
    async fn put(&self, ctx: &CallContext, request: pb::PutRequest) -> Result<pb::PutReply, XrlError> {
        let row = row(&request.program)?;
        let (pid, components) = self.sockets.components_of_caller(ctx).await?;
        let component = self.programs.permitted(&components, row.name)?;
        let holder = Holder { component, pid };
        let interfaces: BTreeSet<String> = request.interfaces.into_iter().collect();
        let grace = Duration::from_millis(request.grace_ms.into());
        let tokens = put(&self.0, Put { row, holder, interfaces, grace })?;
        Ok(pb::PutReply { maps: tokens })
    }

    async fn take_out(
        &self,
        ctx: &CallContext,
        request: pb::TakeOutRequest,
    ) -> Result<pb::TakeOutReply, XrlError> {
        let row = row(&request.program)?;
        let (_, components) = self.sockets.components_of_caller(ctx).await?;
        let component = self.programs.permitted(&components, row.name)?;
        if self.programs.placements.borrow_mut().take_out(row, &component) {
            empty(&self.0, row);
        }
        Ok(pb::TakeOutReply {})
    }

    async fn open_receiver(
        &self,
        ctx: &CallContext,
        request: pb::OpenReceiverRequest,
    ) -> Result<pb::OpenReceiverReply, XrlError> {
        frame_sockets::open(&self.0, ctx, request).await
    }

    async fn start_receiver(
        &self,
        ctx: &CallContext,
        request: pb::StartReceiverRequest,
    ) -> Result<pb::StartReceiverReply, XrlError> {
        frame_sockets::start(&self.0, ctx, request).await
    }
}

fn put(process: &Rc<FeaProcess>, put: Put) -> Result<Vec<pb::MapToken>, XrlError> {
    let (row, holder) = (put.row, put.holder.clone());
    let program = Embedded::ALL.into_iter().find(|program| program.name() == row.name);
    let (Some(program), Some(slot)) = (program, slot(row)) else {
        return Err(XrlError::Internal(format!("the program `{}` has no object or no slot", row.name)));
    };
    let not_running = || {
        let advice = "XDP does not run here; `set interfaces forwarding engine both` starts it, and \
                      `sluice show forwarding` shows what stands in the way";
        XrlError::application(NOT_AVAILABLE, advice)
    };
    let loaded =
        process.fast_path.with(|path| path.chain().load(program, row.maps)).ok_or_else(not_running)?;
    let loaded = loaded.map_err(|error| refused(&error))?;
    let devices = row.copies.map(|copies| copies_of(process, &loaded, copies)).transpose()?;
    let before = process.programs.placements.borrow().clone();
    process.programs.placements.borrow_mut().put(put).map_err(|Taken { component, program }| {
        XrlError::application(
            TAKEN,
            format!("the program `{program}` of {component} stands in the slot {}", row.slot),
        )
    })?;
    let filled = process.fast_path.with(|path| path.chain().fill(slot, &loaded));
    if let Some(Err(error)) = filled {
        process.programs.placements.replace(before);
        return Err(refused(&error));
    }
    process.programs.devices.borrow_mut().extend(devices.map(|devices| (row.name, devices)));
    process.programs.sockets.loaded(row, &loaded).map_err(|error| refused(&error))?;
    process.fast_path.refresh_ports(process);
    let mut tokens = Vec::new();
    for name in row.maps {
        let map = loaded.map(name).and_then(|map| {
            map.try_clone_to_owned().map_err(|source| BpfError::Pin { path: (*name).into(), source })
        });
        let token = process.sockets.offer(holder.pid, Rc::new(map.map_err(|error| refused(&error))?))?;
        tokens.push(pb::MapToken { name: (*name).into(), token });
    }
    process.programs.loaded.borrow_mut().insert(row.name, loaded);
    info!(
        component = holder.component,
        program = row.name,
        slot = row.slot,
        "a program is in the path of packets"
    );
    watch(process, holder.pid);
    Ok(tokens)
}

/// Loads the program for copies of a loaded program, and returns the interfaces to which copies are sent: none yet.
fn copies_of(process: &FeaProcess, loaded: &Loaded, copies: Copies) -> Result<Devices, XrlError> {
    let program = Embedded::ALL.into_iter().find(|program| program.name() == copies.program);
    let no_object = || XrlError::Internal(format!("the program `{}` has no object", copies.program));
    let program = program.ok_or_else(no_object)?;
    let load = |path: &FastPath| {
        let program = path.chain().load_copies(program, copies.maps)?;
        Devices::new(loaded, copies.devices, &program)
    };
    let devices = process.fast_path.with(load).ok_or_else(no_object)?;
    devices.map_err(|error| refused(&error))
}

/// Notes the end of a process.
fn watch(process: &Rc<FeaProcess>, pid: u32) {
    let me = Rc::downgrade(process);
    tokio::task::spawn_local(async move {
        crate::sockets::ended(pid).await;
        if let Some(me) = me.upgrade() {
            me.programs.placements.borrow_mut().ended(clock::now(), pid);
            me.programs.sockets.ended(pid);
            me.programs.wake.notify_one();
        }
    });
}

/// Takes a program out of its slot.
fn empty(process: &Rc<FeaProcess>, row: &'static ProgramRow) {
    let Some(slot) = slot(row) else { return };
    process.programs.loaded.borrow_mut().remove(row.name);
    process.programs.devices.borrow_mut().remove(row.name);
    process.programs.sockets.unloaded(row);
    let emptied = process.fast_path.with(|path| path.chain().empty(slot, row.maps));
    if let Some(Err(error)) = emptied {
        warn!(%error, program = row.name, "a program stays in the path of packets");
    } else {
        info!(program = row.name, slot = row.slot, "a program is out of the path of packets");
    }
    process.fast_path.refresh_ports(process);
}

/// Empties slots whose grace times are over, for ever.
pub(crate) async fn expire(process: Rc<FeaProcess>) {
    loop {
        let over = process.programs.placements.borrow_mut().expire(clock::now());
        over.into_iter().for_each(|row| empty(&process, row));
        let deadline = process.programs.placements.borrow().next_deadline();
        match deadline {
            None => process.programs.wake.notified().await,
            Some(at) => {
                tokio::select! {
                    () = process.programs.wake.notified() => {}
                    () = tokio::time::sleep_until(clock::to_tokio(at)) => {}
                }
            }
        }
    }
}
