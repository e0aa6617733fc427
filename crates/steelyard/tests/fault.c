// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs a command of which one system call fails, or is never returned from, among those that
 * concern a directory: by path, or by an open file in it.
 *
 *	fault -d DIRECTORY -r REPORT [-n NUMBER (-e ERRNO | -k)] [-w WITHOUT] [-s BYTES] COMMAND...
 *
 * The NUMBERth of these calls fails with ERRNO, or (-k) finds the process killed before it is
 * made. WITHOUT names what the file system does not have: `tmpfile`, `links`. Files grow to no
 * more than BYTES, up to which a write is short. REPORT gets the number of calls and the name of
 * the one that failed. The exit code is the command's, or 128 and the signal.
 *
 * The kernel asks this process about each call (seccomp user notification, Linux 5.5): it needs no
 * privilege, and no library between the command and the kernel can hide a call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NONE = -1 };

/* Which argument is what: an open file, or paths, each relative to an open directory. */
struct call {
	const char *name;
	int number;
	int file;
	int directory[2];
	int path[2];
};

/* clang-format off */
#define OF_FILE(call) { #call, SYS_##call, 0, { NONE, NONE }, { NONE, NONE } }
#define OF_PATH(call) { #call, SYS_##call, NONE, { NONE, NONE }, { 0, NONE } }
#define OF_PATHS(call) { #call, SYS_##call, NONE, { NONE, NONE }, { 0, 1 } }
#define AT_PATH(call) { #call, SYS_##call, NONE, { 0, NONE }, { 1, NONE } }
#define AT_PATHS(call) { #call, SYS_##call, NONE, { 0, 2 }, { 1, 3 } }

static const struct call calls[] = {
	OF_FILE(write), OF_FILE(writev), OF_FILE(pwrite64), OF_FILE(fsync), OF_FILE(fdatasync),
	OF_FILE(ftruncate), OF_FILE(fallocate), OF_FILE(close), OF_FILE(fchmod), OF_FILE(fchown),
	OF_FILE(fstat), AT_PATH(openat), AT_PATH(unlinkat), AT_PATH(mkdirat), AT_PATH(fchmodat),
	AT_PATH(fchownat), AT_PATH(statx), AT_PATH(newfstatat), AT_PATH(readlinkat),
	AT_PATH(faccessat), AT_PATHS(linkat), AT_PATHS(renameat2),
#ifdef SYS_renameat
	AT_PATHS(renameat),
#endif
#ifdef SYS_open /* What newer architectures have no more. */
	OF_PATH(open), OF_PATH(creat), OF_PATH(unlink), OF_PATH(mkdir), OF_PATH(rmdir),
	OF_PATH(chmod), OF_PATH(chown), OF_PATH(stat), OF_PATH(lstat), OF_PATH(readlink),
	OF_PATH(access), OF_PATHS(link), OF_PATHS(rename),
#endif
};
/* clang-format on */

enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static const char *directory;

static void fail(const char *what)
{
	fprintf(stderr, "fault: %s: %s\n", what, strerror(errno));
	exit(125);
}

/* The path of an open file of a process; empty if there is none. */
static void path_of_file(int process, int file, char path[PATH_MAX])
{
	char way[64];
	ssize_t length;

	if (file == AT_FDCWD)
		snprintf(way, sizeof(way), "/proc/%d/cwd", process);
	else
		snprintf(way, sizeof(way), "/proc/%d/fd/%d", process, file);
	length = readlink(way, path, PATH_MAX - 1);
	path[length < 0 ? 0 : length] = '\0';
}

/* The text at an address in a process; what lies on a page that is not there is left out. */
static void read_text(int process, unsigned long long address, char text[PATH_MAX])
{
	char way[64];
	int memory;

	memset(text, 0, PATH_MAX);
	snprintf(way, sizeof(way), "/proc/%d/mem", process);
	memory = open(way, O_RDONLY | O_CLOEXEC);
	if (memory < 0)
		return;
	/* A read that fails at the end of a page reads what is before it. */
	if (pread(memory, text, PATH_MAX - 1, (off_t)address) < 0)
		text[0] = '\0';
	close(memory);
}

static bool is_within(const char *path)
{
	size_t length = strlen(directory);

	return strncmp(path, directory, length) == 0 &&
	       (path[length] == '/' || path[length] == '\0' || path[length] == ' ');
}

static bool concerns(const struct call *call, const struct seccomp_notif *asked)
{
	char base[PATH_MAX], text[PATH_MAX], path[2 * PATH_MAX];
	int process = (int)asked->pid, file;

	if (call->file != NONE) {
		path_of_file(process, (int)asked->data.args[call->file], base);
		return is_within(base);
	}
	for (int i = 0; i < 2 && call->path[i] != NONE; i++) {
		read_text(process, asked->data.args[call->path[i]], text);
		if (sscanf(text, "/proc/self/fd/%d", &file) == 1) {
			path_of_file(process, file, base);
			text[0] = '\0';
		} else {
			file = call->directory[i] == NONE ? AT_FDCWD :
							    (int)asked->data.args[call->directory[i]];
			path_of_file(process, file, base);
		}
		if (text[0] == '/')
			snprintf(path, sizeof(path), "%s", text);
		else
			snprintf(path, sizeof(path), "%s%s%s", base, text[0] ? "/" : "", text);
		if (is_within(path))
			return true;
	}
	return false;
}

/* Whether this is the call that a file system without `lacks` does not have. */
static bool is_lacking(const struct call *call, const struct seccomp_notif *asked, const char *lacks)
{
	int flags = (int)asked->data.args[call->directory[0] == NONE ? 1 : 2];

	if (strcmp(call->name, "open") == 0 || strcmp(call->name, "openat") == 0)
		return (flags & O_TMPFILE) == O_TMPFILE && strstr(lacks, "tmpfile");
	return strstr(call->name, "link") == call->name && strstr(lacks, "links");
}

/* Has the kernel ask about these calls; the file by which it asks. */
static int listen_to_calls(void)
{
	struct sock_filter filter[CALLS + 3];
	struct sock_fprog program = { .len = CALLS + 3, .filter = filter };
	int count = 0;

	filter[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						       offsetof(struct seccomp_data, nr));
	for (int i = 0; i < CALLS; i++, count++)
		filter[count] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							     (unsigned int)calls[i].number, (unsigned char)(CALLS - i), 0);
	filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no new privileges");
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			    SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* Gives an open file to another process, or takes it from there. */
static int pass(int socket, int file)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	char nothing = 0;
	struct iovec bytes = { .iov_base = &nothing, .iov_len = 1 };
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};

	if (file == NONE) {
		if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
			fail("no notifications (they need Linux 5.5)");
		memcpy(&file, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(file));
		return file;
	}
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
	if (sendmsg(socket, &message, 0) != 1)
		fail("sendmsg");
	return file;
}

int main(int argc, char **argv)
{
	const char *report = NULL, *lacks = "", *failed = "nothing";
	long number = 0, count = 0, most_bytes = NONE;
	int error = 0, option, sockets[2], listener, status = 0;
	bool ended = false;
	pid_t child;

	while ((option = getopt(argc, argv, "+d:r:n:e:kw:s:")) != -1) {
		switch (option) {
		case 'd':
			directory = optarg;
			break;
		case 'r':
			report = optarg;
			break;
		case 'n':
			number = atol(optarg);
			break;
		case 'e':
			error = atoi(optarg);
			break;
		case 'k':
			error = 0;
			break;
		case 'w':
			lacks = optarg;
			break;
		case 's':
			most_bytes = atol(optarg);
			break;
		default:
			return 125;
		}
	}
	if (!directory || !report || optind == argc)
		return 125;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		fail("socketpair");
	child = fork();
	if (child < 0)
		fail("fork");
	if (child == 0) {
		struct rlimit limit = { (rlim_t)most_bytes, (rlim_t)most_bytes };

		if (most_bytes != NONE) {
			signal(SIGXFSZ, SIG_IGN);
			setrlimit(RLIMIT_FSIZE, &limit);
		}
		listener = listen_to_calls();
		if (listener < 0)
			_exit(125);
		pass(sockets[1], listener);
		execvp(argv[optind], argv + optind);
		_exit(125);
	}
	close(sockets[1]);
	listener = pass(sockets[0], NONE);
	while (!ended) {
		struct pollfd ready = { .fd = listener, .events = POLLIN };
		struct seccomp_notif asked = { 0 };
		struct seccomp_notif_resp answer = { 0 };
		const struct call *call = calls;

		poll(&ready, 1, 100);
		if (!(ready.revents & POLLIN)) {
			ended = waitpid(child, &status, WNOHANG) == child;
			continue;
		}
		/* It may have been killed meanwhile. */
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked))
			continue;
		while (call->number != asked.data.nr)
			call++;
		answer.id = asked.id;
		if (concerns(call, &asked)) {
			if (is_lacking(call, &asked, lacks)) {
				answer.error = -EOPNOTSUPP;
			} else if (++count == number) {
				failed = call->name;
				answer.error = -error;
				if (!error)
					kill(child, SIGKILL);
			}
		}
		if (!answer.error)
			answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		if (!(count == number && !error && failed == call->name))
			ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	FILE *told = fopen(report, "w");

	if (!told || fprintf(told, "%ld %s\n", count, failed) < 0 || fclose(told))
		fail(report);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
