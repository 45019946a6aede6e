import { expect, test } from 'vitest'
import { parseImageReference } from '../../host/image-reference.ts'

test.each([
  ['nginx', { repository: 'nginx' }],
  ['nginx:1.27', { repository: 'nginx', tag: '1.27' }],
  ['nginx:', { repository: 'nginx' }],
  ['localhost:5000/web', { repository: 'localhost:5000/web' }],
  [
    'localhost:5000/web:v1@sha256:ab',
    { repository: 'localhost:5000/web', tag: 'v1', digest: 'sha256:ab' },
  ],
  ['a/b@sha256:ab', { repository: 'a/b', digest: 'sha256:ab' }],
])('%s', (reference, parts) => expect(parseImageReference(reference)).toEqual(parts))
