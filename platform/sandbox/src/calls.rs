//! System calls by seccomp (seccomp(2)).
//!
//! A call outside a process's list fails with EPERM. A call needed by no component, the first step of attacks on the
//! kernel or on other processes, ends the process: the manager reports the end, and restarts the component.

use crate::plan::CallList;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Len, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};
use std::collections::BTreeMap;

/// Calls of every program: files, memory, threads, time, Unix sockets.
const COMMON: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_creat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_access,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getdents,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_mkdir,
    libc::SYS_mkdirat,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_linkat,
    libc::SYS_symlink,
    libc::SYS_symlinkat,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    libc::SYS_chmod,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_umask,
    libc::SYS_utimensat,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_truncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_lseek,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_memfd_create,
    libc::SYS_get_mempolicy,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_create,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_eventfd,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_pipe,
    libc::SYS_pipe2,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigpending,
    libc::SYS_sigaltstack,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pause,
    libc::SYS_alarm,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_getpgrp,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getpriority,
    libc::SYS_getrusage,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_times,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_prctl,
    libc::SYS_arch_prctl,
    libc::SYS_seccomp,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_execve,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getcpu,
    libc::SYS_restart_syscall,
    libc::SYS_personality,
    libc::SYS_pidfd_open,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_time,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_delete,
    libc::SYS_getrandom,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
];

/// Calls of interpreters and run-time systems beside [`COMMON`]: processes, sessions.
const INTERPRETER: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    libc::SYS_sched_setscheduler,
    libc::SYS_setpriority,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_mlock2,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_readahead,
    libc::SYS_sync_file_range,
];

/// Calls that end the process: other processes' memory, mounts, modules, kernels, keys, namespaces, BPF, the clock.
const DEADLY: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_open_by_handle_at,
    libc::SYS_syslog,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
];

/// Calls of the FEA beside the common ones: the kernel still checks CAP_BPF and CAP_NET_ADMIN.
const FORWARDING: &[i64] = &[libc::SYS_bpf];

/// Flags of clone(2) for new namespaces; [`CLONE_NEWTIME`](libc::CLONE_NEWTIME) exists for clone3(2) only.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// Socket options beyond the right by which the FEA opened a socket: headers written by the process, multicast groups,
/// another interface.
const WIDENING: &[(libc::c_int, libc::c_int)] = &[
    (libc::IPPROTO_IP, libc::IP_HDRINCL),
    (libc::IPPROTO_IP, libc::IP_ADD_MEMBERSHIP),
    (libc::IPPROTO_IP, libc::IP_ADD_SOURCE_MEMBERSHIP),
    (libc::IPPROTO_IP, MCAST_JOIN_GROUP),
    (libc::IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP),
    (libc::IPPROTO_IP, libc::IP_MULTICAST_ALL),
    (libc::IPPROTO_IPV6, libc::IPV6_HDRINCL),
    (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP),
    (libc::IPPROTO_IPV6, IPV6_JOIN_ANYCAST),
    (libc::IPPROTO_IPV6, MCAST_JOIN_GROUP),
    (libc::IPPROTO_IPV6, MCAST_JOIN_SOURCE_GROUP),
    (libc::SOL_SOCKET, libc::SO_BINDTODEVICE),
    (libc::SOL_SOCKET, SO_BINDTOIFINDEX),
    (libc::SOL_SOCKET, libc::SO_MARK),
    (libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP),
    (libc::SOL_PACKET, libc::PACKET_FANOUT),
];

/// linux/in.h; libc has the constants for other systems only.
const MCAST_JOIN_GROUP: libc::c_int = 42;
const MCAST_JOIN_SOURCE_GROUP: libc::c_int = 46;
/// linux/in6.h.
const IPV6_JOIN_ANYCAST: libc::c_int = 27;
/// asm-generic/socket.h.
const SO_BINDTOIFINDEX: libc::c_int = 62;

/// Installs a list in all threads of the process. The list holds for every program executed later.
///
/// # Errors
///
/// If the kernel has no seccomp filters, or the process may gain privileges (`no_new_privs` is off).
pub fn restrict(list: CallList) -> Result<(), CallError> {
    for program in programs(list)? {
        seccompiler::apply_filter_all_threads(&program)?;
    }
    Ok(())
}

/// Takes the right to execute programs and to start processes from all threads of the process. For a component of the
/// router's executable, once its program runs.
///
/// # Errors
///
/// As for [`restrict`].
pub fn forbid_programs() -> Result<(), CallError> {
    let calls = [libc::SYS_execve, libc::SYS_execveat, libc::SYS_fork, libc::SYS_vfork];
    let program = refusing(calls.into_iter().map(|call| (call, Vec::new())).collect(), libc::EPERM)?;
    Ok(seccompiler::apply_filter_all_threads(&program)?)
}

/// An error of a filter.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The filter is not valid.
    #[error("the filter of system calls is not valid: {0}")]
    Filter(#[from] seccompiler::BackendError),
    /// The kernel refuses the filter.
    #[error("the kernel refuses the filter of system calls: {0}")]
    Kernel(#[from] seccompiler::Error),
}

/// Returns the filters of a list. The kernel runs all filters for each call and takes the strictest result.
fn programs(list: CallList) -> Result<Vec<BpfProgram>, CallError> {
    let mut programs = vec![
        allowing(list)?,
        filter(deadly(list).map(|call| (call, Vec::new())).collect(), SeccompAction::KillProcess)?,
        // glibc makes threads by clone(2) instead, whose flags a filter can read.
        refusing(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?,
        refusing(BTreeMap::from([(libc::SYS_clone, namespace_rules()?)]), libc::EPERM)?,
    ];
    if let Some(families) = families(list) {
        let none_of =
            families.iter().map(|family| SeccompCondition::new(0, Len::Dword, Op::Ne, *family as u64));
        let none_of = SeccompRule::new(none_of.collect::<Result<_, _>>()?)?;
        let mut refused = BTreeMap::from([(libc::SYS_socket, vec![none_of])]);
        refused.insert(libc::SYS_setsockopt, option_rules()?);
        programs.push(refusing(refused, libc::EPERM)?);
    }
    Ok(programs)
}

/// Returns the families of sockets that a list permits; `None` for all.
fn families(list: CallList) -> Option<&'static [libc::c_int]> {
    match list {
        CallList::Forwarding => None,
        CallList::Component | CallList::Package => Some(&[libc::AF_UNIX]),
        CallList::Server => Some(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]),
    }
}

/// Returns the calls that end a process of a list. The FEA loads XDP programs.
fn deadly(list: CallList) -> impl Iterator<Item = i64> {
    let spared = FORWARDING.iter().filter(move |_| list == CallList::Forwarding);
    DEADLY.iter().copied().filter(move |call| !spared.clone().any(|spared| spared == call))
}

fn namespace_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let rule = |flag: &libc::c_int| {
        let flag = *flag as u64;
        SeccompRule::new(vec![SeccompCondition::new(0, Len::Qword, Op::MaskedEq(flag), flag)?])
    };
    NAMESPACES.iter().map(rule).collect()
}

fn option_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let equal =
        |argument, value: libc::c_int| SeccompCondition::new(argument, Len::Dword, Op::Eq, value as u64);
    WIDENING
        .iter()
        .map(|(level, option)| SeccompRule::new(vec![equal(1, *level)?, equal(2, *option)?]))
        .collect()
}

/// Returns a filter that lets the calls of a list pass, and refuses all others.
fn allowing(list: CallList) -> Result<BpfProgram, CallError> {
    let more: &[i64] = match list {
        CallList::Package | CallList::Server => INTERPRETER,
        CallList::Forwarding => FORWARDING,
        CallList::Component => &[],
    };
    let calls = COMMON.iter().chain(more).map(|call| (*call, Vec::new())).collect();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    Ok(SeccompFilter::new(calls, refuse, SeccompAction::Allow, TargetArch::x86_64)?.try_into()?)
}

/// Returns a filter that answers the calls with an error.
fn refusing(calls: BTreeMap<i64, Vec<SeccompRule>>, error: libc::c_int) -> Result<BpfProgram, CallError> {
    filter(calls, SeccompAction::Errno(error as u32))
}

/// Returns a filter that acts on the calls, and lets all others pass.
fn filter(calls: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Result<BpfProgram, CallError> {
    Ok(SeccompFilter::new(calls, SeccompAction::Allow, action, TargetArch::x86_64)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn no_list_allows_a_deadly_call_and_no_call_is_named_twice() {
        let deadly: BTreeSet<i64> = DEADLY.iter().copied().collect();
        let allowed: Vec<i64> = COMMON.iter().chain(INTERPRETER).copied().collect();
        assert!(allowed.iter().all(|call| !deadly.contains(call)));
        assert_eq!(allowed.iter().collect::<BTreeSet<_>>().len(), allowed.len());
        let spared: BTreeSet<i64> = super::deadly(CallList::Forwarding).collect();
        assert_eq!(deadly.difference(&spared).copied().collect::<Vec<_>>(), [libc::SYS_bpf]);
        assert_eq!(super::deadly(CallList::Package).count(), deadly.len());
    }

    #[test]
    fn every_list_compiles_and_fits_the_kernels_limit() {
        for list in [CallList::Component, CallList::Forwarding, CallList::Package, CallList::Server] {
            let programs = programs(list).expect("valid");
            // BPF_MAXINSNS (linux/bpf_common.h).
            assert!(programs.iter().all(|program| program.len() <= 4096), "{list:?}");
        }
    }
}
