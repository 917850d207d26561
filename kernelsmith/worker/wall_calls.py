"""System calls that a job may not make, by what they would allow (numbers of x86-64)."""

from collections.abc import Mapping

Calls = Mapping[str, int]

SOCKETS: Calls = {"socket": 41, "socketpair": 53}
OTHER_PROCESSES: Calls = {
    "ptrace": 101,
    "rt_sigqueueinfo": 129,
    "tkill": 200,
    "migrate_pages": 256,
    "move_pages": 279,
    "rt_tgsigqueueinfo": 297,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "kcmp": 312,
    "pidfd_send_signal": 424,
    "pidfd_open": 434,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "process_mrelease": 448,
}
GROUPS: Calls = {"setpgid": 109, "setsid": 112}
MOUNTS: Calls = {
    "pivot_root": 155,
    "chroot": 161,
    "mount": 165,
    "umount2": 166,
    "unshare": 272,
    "setns": 308,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "mount_setattr": 442,
}
SYSTEM: Calls = {
    "syslog": 103,
    "uselib": 134,
    "personality": 135,
    "sysfs": 139,
    "vhangup": 153,
    "modify_ldt": 154,
    "adjtimex": 159,
    "sync": 162,
    "acct": 163,
    "settimeofday": 164,
    "swapon": 167,
    "swapoff": 168,
    "reboot": 169,
    "sethostname": 170,
    "setdomainname": 171,
    "iopl": 172,
    "ioperm": 173,
    "create_module": 174,
    "init_module": 175,
    "delete_module": 176,
    "get_kernel_syms": 177,
    "query_module": 178,
    "quotactl": 179,
    "nfsservctl": 180,
    "lookup_dcookie": 212,
    "clock_settime": 227,
    "kexec_load": 246,
    "clock_adjtime": 305,
    "syncfs": 306,
    "finit_module": 313,
    "kexec_file_load": 320,
    "quotactl_fd": 443,
}
KERNEL_OBJECTS: Calls = {
    "add_key": 248,
    "request_key": 249,
    "keyctl": 250,
    "inotify_init": 253,
    "inotify_init1": 294,
    "perf_event_open": 298,
    "fanotify_init": 300,
    "fanotify_mark": 301,
    "name_to_handle_at": 303,
    "open_by_handle_at": 304,
    "memfd_create": 319,
    "bpf": 321,
    "userfaultfd": 323,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "memfd_secret": 447,
}
SHARED_MEMORY: Calls = {
    "shmget": 29,
    "shmat": 30,
    "shmctl": 31,
    "semget": 64,
    "semop": 65,
    "semctl": 66,
    "msgget": 68,
    "msgsnd": 69,
    "msgrcv": 70,
    "msgctl": 71,
    "semtimedop": 220,
    "mq_open": 240,
    "mq_unlink": 241,
    "mq_timedsend": 242,
    "mq_timedreceive": 243,
    "mq_notify": 244,
    "mq_getsetattr": 245,
}
LINKS_AND_OWNERS: Calls = {
    "link": 86,
    "symlink": 88,
    "chmod": 90,
    "fchmod": 91,
    "chown": 92,
    "fchown": 93,
    "lchown": 94,
    "mknod": 133,
    "mknodat": 259,
    "fchownat": 260,
    "linkat": 265,
    "symlinkat": 266,
    "fchmodat": 268,
}
"""Landlock has no rule for modes and owners."""
TIMES_AND_ATTRIBUTES: Calls = {
    "utime": 132,
    "setxattr": 188,
    "lsetxattr": 189,
    "fsetxattr": 190,
    "removexattr": 197,
    "lremovexattr": 198,
    "fremovexattr": 199,
    "utimes": 235,
    "futimesat": 261,
    "utimensat": 280,
}
"""Nor for these: a job of the host's own user could change those of files it may only read."""
NAMES: Calls = {
    "truncate": 76,
    "rename": 82,
    "mkdir": 83,
    "rmdir": 84,
    "creat": 85,
    "unlink": 87,
    "mkdirat": 258,
    "unlinkat": 263,
    "renameat": 264,
    "renameat2": 316,
}
"""A file without a name is one that nobody can count; folders have no end."""
SCHEDULING: Calls = {
    "setpriority": 141,
    "sched_setparam": 142,
    "sched_setscheduler": 144,
    "ioprio_set": 251,
    "sched_setattr": 314,
}
FORKS: Calls = {"fork": 57, "vfork": 58}
PROGRAMS: Calls = {"execve": 59, "execveat": 322}

OPEN, CLONE, KILL, FCNTL, PRCTL, SCHED_SETAFFINITY, TGKILL = 2, 56, 62, 72, 157, 203, 234
OPENAT, PRLIMIT, CLONE3, OPENAT2 = 257, 302, 435, 437
FIRST_UNKNOWN = 450
"""From here on calls are newer than most systems that this runs on; all of them have older ways."""

# O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND; __O_TMPFILE is the part of its own of O_TMPFILE.
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000
NAMELESS = 0o20000000
CLONE_THREAD = 0x00010000
# Namespaces (mount, cgroup, uts, ipc, user, pid, net), a sibling instead of a child, a traced one.
CLONE_APART = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
CLONE_APART |= 0x40000000 | 0x00008000 | 0x00002000
# F_SETOWN, F_SETSIG, F_SETOWN_EX: a signal to any process when a pipe has input. F_SETLEASE,
# F_NOTIFY: news of, and a say in, what others do with a file.
FCNTL_REFUSED = (8, 10, 15, 1024, 1026)
# PR_SET_PDEATHSIG, PR_SET_DUMPABLE: what the wall has set stays.
PRCTL_REFUSED = (1, 4)

ALWAYS: tuple[Calls, ...] = (
    SOCKETS,
    OTHER_PROCESSES,
    GROUPS,
    MOUNTS,
    SYSTEM,
    KERNEL_OBJECTS,
    SHARED_MEMORY,
    LINKS_AND_OWNERS,
    TIMES_AND_ATTRIBUTES,
    SCHEDULING,
)
