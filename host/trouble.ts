/**
 * The machine, the cluster or the grader has a problem, which no input of the learner would avoid.
 * The message is a sentence. A step could not be checked; commands end with exit code 2.
 */
export class Trouble extends Error {}
