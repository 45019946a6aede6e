// Every command in labs/07-before-and-after/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(7)
