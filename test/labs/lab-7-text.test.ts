// What labs/07-before-and-after/README.md tells the reader to type is typed, from the first line to the last, and works.

import { typeText } from './typed-text.ts'

typeText(7)
