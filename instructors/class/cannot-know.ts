/** Said in every report: what a grade from captures is worth, and what it is not. */
export const CANNOT_KNOW: readonly string[] = [
  'Who sat at the keyboard: a learner can let somebody else, or `make solve-N`, do the work.',
  'Whether a capture is genuine: a learner is root on the cluster it came from, so an able forger can write one that passes. Flags find copies and careless forgeries; they are reasons to look and cost no points.',
  'What time it really was: every date is by the clock of the machine that the learner controls.',
  'Steps that send real requests: a capture can not answer them, so they earn and cost nothing here. Grade the live cluster to have them.',
  'What the notes about past moments are worth: they lie in the learner’s own cluster and can be edited there.',
  'A valid signature says that the holder of that learner’s key made the file, not that the work is theirs.',
]
