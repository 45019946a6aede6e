// Every command in labs/11-which-pod/README.md is typed, in order, and works.

import { typeText } from './typed-text.ts'

await typeText(11)
