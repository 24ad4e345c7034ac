//! The filter of a `seccomp` step: every system call of this process, of its threads and of the processes that it
//! starts goes to the parent, which lets it pass or answers it with an error. The rules are in
//! [`cuda_pitfalls_core::refusal`].

use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::state::errno;
use cuda_pitfalls_core::channel::Channel;
use cuda_pitfalls_core::event::Event;

/// The architecture of system calls, from `linux/audit.h`.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;

/// The calls that carry the worker's own messages. On one of its channels they are not filtered.
const MESSAGES: [i64; 6] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
];

/// The system calls go to another process. The newest of these is of Linux 5.7, as letting a call pass is of 5.5.
const FLAGS: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
    | libc::SECCOMP_FILTER_FLAG_TSYNC
    | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;

/// Returns the missing requirement for a filter; `None` if the kernel can send system calls to another process. The
/// kernel checks the flags before it looks for a program.
pub(super) fn missing() -> Option<String> {
    let nothing = std::ptr::null::<libc::sock_fprog>();
    // SAFETY: no filter is installed: the kernel finds no program.
    unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            FLAGS,
            nothing,
        )
    };
    (errno() != i64::from(libc::EFAULT))
        .then(|| "seccomp user notification (Linux 5.7)".to_string())
}

/// Sets a filter on this process for the program that it is about to become, which has the channel at this descriptor.
///
/// # Errors
/// Returns an error if a system call fails.
///
/// # Safety
/// `fd` must be this process's end of a channel, inherited and without another owner.
pub unsafe fn before_exec(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: the caller guarantees the descriptor.
    let channel = unsafe { Channel::from_inherited(fd) };
    let installed = install_filter(&channel, &[]);
    // It stays open for the program.
    std::mem::forget(channel);
    installed.map_err(|errno| {
        std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(libc::EINVAL))
    })
}

/// Sets a filter on this process, and sends the descriptor that answers it to the parent. Does nothing if a filter is
/// already set. The error is an `errno`.
pub(super) fn install_filter(channel: &Channel, set_aside: &[RawFd]) -> Result<(), i64> {
    let own = channel.as_fd().as_raw_fd();
    let spared: Vec<RawFd> = set_aside.iter().copied().chain([own]).collect();
    let mut filter = program(&spared);
    let mut message = serde_json::to_vec(&Event::Filtered).map_err(|_| 22i64)?;
    message.push(b'\n');
    rustix::thread::set_no_new_privs(true).map_err(|error| i64::from(error.raw_os_error()))?;
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(|_| 7i64)?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program lives until the call returns.
    let listener = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            FLAGS,
            &raw const program,
        )
    };
    if listener < 0 {
        // A process inherits a filter of its parent, and cannot have another one.
        return if errno() == i64::from(libc::EBUSY) {
            Ok(())
        } else {
            Err(errno())
        };
    }
    // From here until the parent has the listener, any other system call would wait forever for an answer, so nothing
    // is allocated. SAFETY: the kernel has just made this descriptor, for us alone.
    let listener = unsafe { OwnedFd::from_raw_fd(listener as RawFd) };
    let descriptors = [listener.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    along.push(SendAncillaryMessage::ScmRights(&descriptors));
    let sent = sendmsg(
        channel,
        &[std::io::IoSlice::new(&message)],
        &mut along,
        SendFlags::NOSIGNAL,
    );
    sent.map(drop)
        .map_err(|error| i64::from(error.raw_os_error()))
}

/// Returns a program for the kernel: messages on `spared` descriptors pass, and so do calls of other architectures;
/// every other call is sent to the listener.
fn program(spared: &[RawFd]) -> Vec<libc::sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    // Few enough that every jump fits in eight bits; messages on further channels are only answered by the parent.
    let spared = spared.get(..spared.len().min(100)).unwrap_or_default();
    let mut filter = vec![
        filter_statement(LOAD, offset_of!(libc::seccomp_data, arch) as u32),
        filter_jump(ARCHITECTURE, 1),
        filter_statement(RETURN, libc::SECCOMP_RET_ALLOW),
        filter_statement(LOAD, offset_of!(libc::seccomp_data, nr) as u32),
    ];
    // After the messages come: notify, load, the descriptors, notify, allow.
    filter.extend(
        MESSAGES
            .iter()
            .enumerate()
            .map(|(index, call)| filter_jump(*call as u32, MESSAGES.len() - index)),
    );
    filter.push(filter_statement(RETURN, libc::SECCOMP_RET_USER_NOTIF));
    filter.push(filter_statement(
        LOAD,
        offset_of!(libc::seccomp_data, args) as u32,
    ));
    filter.extend(
        spared
            .iter()
            .enumerate()
            .map(|(index, fd)| filter_jump(*fd as u32, spared.len() - index)),
    );
    filter.push(filter_statement(RETURN, libc::SECCOMP_RET_USER_NOTIF));
    filter.push(filter_statement(RETURN, libc::SECCOMP_RET_ALLOW));
    filter
}

fn filter_statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    }
}

/// Returns a jump over `count` instructions that is taken if the value is `k`.
fn filter_jump(k: u32, count: usize) -> libc::sock_filter {
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    libc::sock_filter {
        code: EQUAL as u16,
        jt: count as u8,
        jf: 0,
        k,
    }
}
