/**
 * Input that is not accepted: options, files, objects, names, a mode that this cluster does not
 * have. The message is a sentence for the person who gave the input, with the value and the next
 * command. Commands end with exit code 2.
 */
export class Refusal extends Error {}
