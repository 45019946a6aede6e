#!/usr/bin/perl
# Answers as docker or kind (by its own name) answered the same words in a genuine run. Calls that change something divide the
# run into parts. Within a part, the n-th question with the same words gets their n-th answer, later ones the last, as programs
# that wait ask often; a question that has no answer in its part gets the latest one from before it. Beside the folder
# of this program: calls.json (the answers), project (the folder that words call <project>), asked (the calls until now),
# unknown (those that the genuine run did not make), kubeconfig (what kind writes).
use strict;
use warnings;
use Fcntl qw(:flock);
use File::Basename;
use File::Copy;
use JSON::PP;

my $folder = dirname(dirname($0));
my $json   = JSON::PP->new->canonical->latin1;

sub file_text {
    open my $file, '<', "$folder/$_[0]" or return '';
    local $/;
    return readline($file) // '';
}
my $project = file_text('project');
my @words   = map { /\n/ ? '<program>' : s/\Q$project\E/<project>/gr } @ARGV;
my $call    = $json->encode([ basename($0), @words ]);

open my $asked, '+>>', "$folder/asked" or die "$folder/asked: $!\n";
flock $asked, LOCK_EX;
seek $asked, 0, 0;
my @earlier = map { chomp; $_ } readline $asked;
print {$asked} "$call\n";
close $asked;

my @calls = @{ $json->decode(file_text('calls.json')) };
my @words_of = map { $json->encode([ $_->{program}, @{ $_->{words} } ]) } @calls;
my $changes = qr/^\["(?:kind","(?:create|delete|export|load)|docker","(?:start|stop|unpause|rm|run))"/;

# The part of the run that the earlier calls lead to: from $from, up to the next change.
my ($from, $times) = (0, 0);
for my $earlier (@earlier) {
    $times++ if $earlier eq $call;
    next unless $earlier =~ $changes;
    my ($made) = grep { $words_of[$_] eq $earlier } $from .. $#calls;
    ($from, $times) = ($made + 1, 0) if defined $made;
}
my ($next) = grep { $words_of[$_] =~ $changes } $from .. $#calls;
my $to = $call =~ $changes ? $#calls : ($next // @calls) - 1;

my @same    = grep { $words_of[$_] eq $call } 0 .. $#calls;
my @inside  = grep { $_ >= $from && $_ <= $to } @same;
my @before  = grep { $_ < $from } @same;
my @answers = map { $calls[$_] } @inside ? @inside : @before ? $before[-1] : @same ? $same[0] : ();
if (!@answers) {
    open my $unknown, '>>', "$folder/unknown" or die $!;
    print {$unknown} "$call\n";
    print STDERR "Not in the recording: $call\n";
    exit 1;
}
my $answer = $answers[ $times < @answers ? $times : -1 ];
my ($config) = "@ARGV" =~ /--kubeconfig (\S+)/;
copy("$folder/kubeconfig", $config) or die "$config: $!\n"
    if $config && $answer->{exitCode} == 0 && $ARGV[0] ne 'delete';
print STDOUT $answer->{stdout};
print STDERR $answer->{stderr};
exit $answer->{exitCode};
