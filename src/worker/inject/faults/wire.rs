//! Faults of the line to the supervisor.

use std::os::fd::RawFd;

use nix::sys::socket::{MsgFlags, Shutdown, send, shutdown};

/// Closes the sending half, so that the supervisor sees the end while the process stays busy.
pub fn hangup(socket: RawFd) {
    let _ = shutdown(socket, Shutdown::Write);
    super::silence::sleep();
}

/// Bytes that are no packet; the training goes on.
pub fn garbage(socket: RawFd) {
    let bytes: Vec<u8> = (0..64u8).map(|i| i.wrapping_mul(37) ^ 0x80).collect();
    let _ = send(socket, &bytes, MsgFlags::MSG_NOSIGNAL);
}

/// The first part of a message whose rest never comes; the training and its messages go on.
pub fn truncated(socket: RawFd) {
    let part = br#"+{"type":"stepped","attempt":{"num"#;
    let _ = send(socket, part, MsgFlags::MSG_NOSIGNAL);
}
