# Names the make target that is nearest to a goal that does not exist. Input: the Makefile. Environment: GOAL.
# Ends with status 2, as every command whose arguments are wrong.
BEGIN { goal = ENVIRON["GOAL"] }

/^[a-z][a-zA-Z0-9_-]*%?:.* ## / {
  target = substr($0, 1, index($0, ":") - 1)
  # A pattern such as lab-%: the number that was typed is kept.
  if (sub(/%$/, "", target)) target = target (match(goal, /[0-9]+$/) ? substr(goal, RSTART) : "2")
  steps = distance(goal, target)
  if (nearest == "" || steps < fewest) { nearest = target; fewest = steps }
}

END {
  shown = goal
  gsub(/[^ -~]/, "?", shown)
  shown = substr(shown, 1, 60)
  advice = fewest <= 1 + length(goal) / 3 ? "did you mean `make " nearest "`?" : "`make` lists all."
  printf " \342\234\227 There is no target \"%s\": %s\n", shown, advice > "/dev/stderr"
  exit 2
}

# The number of letters to insert, to delete, to replace, or to swap with the next one (Damerau and Levenshtein).
function distance(from, to,    row, column, cost, least, table) {
  for (row = 0; row <= length(from); row++) table[row, 0] = row
  for (column = 0; column <= length(to); column++) table[0, column] = column
  for (row = 1; row <= length(from); row++)
    for (column = 1; column <= length(to); column++) {
      cost = substr(from, row, 1) != substr(to, column, 1)
      least = table[row - 1, column - 1] + cost
      if (table[row - 1, column] + 1 < least) least = table[row - 1, column] + 1
      if (table[row, column - 1] + 1 < least) least = table[row, column - 1] + 1
      if (row > 1 && column > 1 && substr(from, row, 1) == substr(to, column - 1, 1) \
        && substr(from, row - 1, 1) == substr(to, column, 1) && table[row - 2, column - 2] + 1 < least)
        least = table[row - 2, column - 2] + 1
      table[row, column] = least
    }
  return table[length(from), length(to)]
}
