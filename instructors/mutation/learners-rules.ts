/** Rules that the text of a lab has its reader write are known by their comment: `probe` in lab 1, `lab-N…` elsewhere. */
export const isLearnersRule = (line: string): boolean => /--comment "?(?:probe|lab-\d+)(?![A-Za-z0-9])/.test(line)
