//! A program that sees a small disk at a folder, which nobody else sees and which is gone with the program.

use std::path::Path;
use std::process::Command;

/// Mounts, and becomes the program as a user without rights: with a user of the machine where we are root, and else
/// with our own, seen through two namespaces, because only the root of a namespace may mount in it.
const AS_ROOT: &str = "mount -t tmpfs -o size=$0m,uid=$1,gid=$2,mode=0700 tmpfs \"$3\" && user=$1 group=$2 && shift 3 \
     && exec setpriv --reuid=$user --regid=$group --clear-groups \"$@\"";
const AS_USER: &str = "mount -t tmpfs -o size=$0m,mode=0700 tmpfs \"$3\" && user=$1 group=$2 && shift 3 \
     && exec unshare --map-user=$user --map-group=$group \"$@\"";

/// The command that runs `program` with such a disk; arguments may be added.
pub(super) fn command(program: &Path, user: Option<(u32, u32)>, folder: &Path, mib: u32) -> Command {
    let mut command = Command::new("unshare");
    let (script, (user, group)) = match user {
        Some(ids) => (AS_ROOT, ids),
        None => {
            command.arg("--map-root-user");
            let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
            (AS_USER, (user.as_raw(), group.as_raw()))
        }
    };
    command
        .args(["--mount", "/bin/sh", "-c", script])
        .args([mib, user, group].map(|number| number.to_string()))
        .arg(folder)
        .arg(program);
    command
}
