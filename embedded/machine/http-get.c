/*
 * Sends an HTTP GET to an IPv4 address, prints the body of the answer and ends as http_get of cluster/http-get.sh does: 0 for a status
 * below 400, else 22, 7 if no process listens, 28 without an answer in time, 1 if it is none of HTTP. A static program, because in the
 * guest starting perl takes six times as long.
 *
 *   http-get ADDRESS PORT PATH SECONDS
 */
#include "static-program.h"

enum {
#ifdef __x86_64__
	SYS_read = 0, SYS_socket = 41, SYS_connect = 42, SYS_setsockopt = 54, SYS_clock_gettime = 228,
#else
	SYS_read = 63, SYS_socket = 198, SYS_connect = 203, SYS_setsockopt = 208, SYS_clock_gettime = 113,
#endif
	AF_INET = 2, SOCK_STREAM = 1, SOL_SOCKET = 1, SO_LINGER = 13, SO_RCVTIMEO = 20, SO_SNDTIMEO = 21, CLOCK_MONOTONIC = 1,
	EAGAIN = 11, ENETUNREACH = 101, ECONNREFUSED = 111, EHOSTUNREACH = 113, EINPROGRESS = 115,
	NANOSECONDS = 1000000000, NANOSECONDS_OF_MICROSECOND = 1000
};

struct time {
	long seconds, part;
};

static struct time end;
static const char *limit;
/* The request; then the lines before the body, which may be no longer; then parts of the body. */
static char answer[16384];

static void stop(const char *what, const char *which, int code)
{
	say(what), say(which), say("\n");
	call(SYS_exit, code, 0, 0, 0, 0);
}

static void too_late(void)
{
	say("no answer: none within "), stop(limit, " s", 28);
}

/* Lets one operation of the socket take no longer than what is left. */
static void limit_time(long socket, int option)
{
	struct time now, left;

	call(SYS_clock_gettime, CLOCK_MONOTONIC, ADDRESS(&now), 0, 0, 0);
	left.seconds = end.seconds - now.seconds, left.part = end.part - now.part;
	if (left.part < 0)
		left.seconds--, left.part += NANOSECONDS;
	if (left.seconds < 0)
		too_late();
	/* 0 would be without a limit. */
	left.part = left.part / NANOSECONDS_OF_MICROSECOND + 1;
	call(SYS_setsockopt, socket, SOL_SOCKET, option, ADDRESS(&left), sizeof left);
}

static void refused(long error)
{
	char number[24];

	if (error == -EAGAIN || error == -EINPROGRESS)
		too_late();
	number_text(-error, number);
	stop("no answer: ", error == -ECONNREFUSED ? "Connection refused" : error == -EHOSTUNREACH ? "No route to host" :
	     error == -ENETUNREACH ? "Network is unreachable" : number, 7);
}

/* All in one packet. */
static void send(long socket, const char **parts)
{
	long at = 0, sent;
	const char *text;

	for (; *parts; parts++)
		for (text = *parts; *text && at < (long)sizeof answer; text++)
			answer[at++] = *text;
	sent = call(SYS_write, socket, ADDRESS(answer), at, 0, 0);
	if (sent < 0)
		refused(sent);
}

static long receive(long socket, char *to, long size)
{
	long count;

	limit_time(socket, SO_RCVTIMEO);
	count = call(SYS_read, socket, ADDRESS(to), size, 0, 0);
	if (count == -EAGAIN)
		too_late();
	/* A connection that is reset ends the answer, too. */
	return count < 0 ? 0 : count;
}

/* Where the body begins; 0 while its beginning has not arrived. */
static long body_after(long count)
{
	long at;

	for (at = 4; at <= count; at++)
		if (answer[at - 4] == '\r' && answer[at - 3] == '\n' && answer[at - 2] == '\r' && answer[at - 1] == '\n')
			return at;
	return 0;
}

/* The three digits of "HTTP/1.1 200 OK". */
static u64 status_of(long count)
{
	static const char begin[5] = { 'H', 'T', 'T', 'P', '/' };
	long at;

	for (at = 0; at < 5; at++)
		if (at >= count || answer[at] != begin[at])
			return 0;
	while (at < count && answer[at] > ' ')
		at++;
	return at < count && answer[at] == ' ' ? number_of(answer + at + 1) : 0;
}

static void print(const char *text, long size)
{
	long written;

	for (; size > 0; text += written, size -= written)
		if ((written = call(SYS_write, 1, ADDRESS(text), size, 0, 0)) <= 0)
			stop("the answer could not be printed", "", 1);
}

void begin(long *stack)
{
	char **arguments = (char **)(stack + 1), number[24];
	static u8 address[16] = { AF_INET };
	static const int reset[2] = { 1, 0 };
	long socket, error, count = 0, body = 0, more, at;
	const char *part, *request[6];
	u64 status;

	if (*stack != 5)
		stop("usage: http-get ADDRESS PORT PATH SECONDS", "", 2);
	limit = arguments[4];
	call(SYS_clock_gettime, CLOCK_MONOTONIC, ADDRESS(&end), 0, 0, 0);
	end.seconds += number_of(limit);
	address[2] = number_of(arguments[2]) >> 8, address[3] = number_of(arguments[2]);
	for (part = arguments[1], at = 4; at < 8; at++) {
		address[at] = number_of(part);
		while (*part && *part++ != '.')
			;
	}
	socket = call(SYS_socket, AF_INET, SOCK_STREAM, 0, 0, 0);
	if (socket < 0)
		refused(socket);
	call(SYS_setsockopt, socket, SOL_SOCKET, SO_LINGER, ADDRESS(reset), sizeof reset);
	limit_time(socket, SO_SNDTIMEO);
	error = call(SYS_connect, socket, ADDRESS(address), sizeof address, 0, 0);
	if (error < 0)
		refused(error);
	request[0] = "GET ", request[1] = arguments[3], request[2] = " HTTP/1.0\r\nHost: ", request[3] = arguments[1];
	request[4] = "\r\n\r\n", request[5] = 0;
	send(socket, request);
	while (!body && count < (long)sizeof answer - 1 && (more = receive(socket, answer + count, sizeof answer - 1 - count)))
		count += more, body = body_after(count);
	status = status_of(count);
	if (!status)
		stop("the answer was not HTTP", "", 1);
	print(answer + body, count - body);
	while ((more = receive(socket, answer, sizeof answer)))
		print(answer, more);
	number_text(status, number);
	if (status >= 400)
		stop("the answer was ", number, 22);
	call(SYS_exit, 0, 0, 0, 0, 0);
}
