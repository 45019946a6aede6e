/** A text as one word of a POSIX shell, whatever it holds but NUL bytes. (zx quotes for bash, which dash does not understand.) */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`
