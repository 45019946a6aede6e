// Every command in labs/09-leaving-ipvs/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(9)
