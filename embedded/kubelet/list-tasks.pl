for my $folder (glob "/proc/[0-9]*") {
  open my $stat, "<", "$folder/stat" or next;
  my @field = split " ", (<$stat> =~ s/^.*\)//sr);
  open my $memory, "<", "$folder/statm" or next;
  my @pages = split " ", <$memory>;
  print join(" ", $folder =~ s/\D//gr, $field[1], $field[11] + $field[12], ($pages[1] - $pages[2]) * 4), "\n";
}
