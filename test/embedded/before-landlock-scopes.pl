# Runs a program as Linux before 6.12 does, whose Landlock knows no scopes: it refuses attributes of 24 bytes (landlock_create_ruleset(2), x86-64).
#   perl before-landlock-scopes.pl PROGRAM [ARGUMENT]...
use strict;

my ($load, $equal, $return) = (0x20, 0x15, 0x06);
my ($number, $second_argument, $landlock_create_ruleset) = (0, 24, 444);
my ($refused, $allowed) = (0x50000 | 7, 0x7fff0000);
my @filter = (
  [$load, 0, 0, $number], [$equal, 0, 3, $landlock_create_ruleset],
  [$load, 0, 0, $second_argument], [$equal, 0, 1, 24], [$return, 0, 0, $refused],
  [$return, 0, 0, $allowed],
);
my $code = join '', map { pack 'SCCL', @$_ } @filter;
my $program = pack 'Sx6P', scalar @filter, $code;
# PR_SET_NO_NEW_PRIVS, and PR_SET_SECCOMP with SECCOMP_MODE_FILTER
syscall(157, 38, 1, 0, 0, 0) == 0 or die $!;
syscall(157, 22, 2, $program) == 0 or die $!;
exec @ARGV or die $!;
