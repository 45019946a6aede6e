#!/usr/bin/perl
# Runs the next program of its own name on PATH, passes its output and exit code on, and adds what was asked and printed as
# one line of JSON to the file $RECORD_ENGINE. Installed as "docker" and "kind" in a folder at the beginning of PATH.
use strict;
use warnings;
use Cwd        qw(realpath);
use Fcntl      qw(:flock);
use File::Basename;
use File::Temp;
use JSON::PP;

# What kind itself asks docker is not recorded: it reads some of it while docker runs.
my $own  = realpath($0);
my $name = basename($0);
$ENV{PATH} = join ':', grep { realpath($_) ne dirname($own) } split /:/, $ENV{PATH};
my ($program) = grep { -x } map {"$_/$name"} split /:/, $ENV{PATH};
die "There is no other \"$name\" on PATH.\n" unless $program;

my %printed = (stdout => File::Temp->new, stderr => File::Temp->new);
my $child   = fork // die "fork: $!\n";
if ($child == 0) {
    open STDOUT, '>&', $printed{stdout} or die $!;
    open STDERR, '>&', $printed{stderr} or die $!;
    exec {$program} $program, @ARGV or die "$program: $!\n";
}
$SIG{$_} = sub { kill $_[0], $child }
    for qw(INT TERM HUP);
1 until waitpid($child, 0) == $child;
my $status = $? & 127 ? 128 + ($? & 127) : $? >> 8;

my %text;
for my $stream (keys %printed) {
    seek $printed{$stream}, 0, 0;
    local $/;
    $text{$stream} = readline($printed{$stream}) // '';
}
print STDOUT $text{stdout};
print STDERR $text{stderr};

my $call = JSON::PP->new->canonical->latin1->encode(
    { program => $name, words => \@ARGV, exitCode => $status, %text });
open my $record, '>>', $ENV{RECORD_ENGINE} or die "$ENV{RECORD_ENGINE}: $!\n";
flock $record, LOCK_EX;
print {$record} "$call\n";
exit $status;
