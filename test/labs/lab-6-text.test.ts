// Every command in labs/06-scale/README.md is typed, in order, and works. On a machine that is busy
// with other tests noise may hide a shape.

import { typeText } from './typed-text.ts'

await typeText(6, /could not be checked, which costs no points: the noise hides/)
