import { transform } from 'esbuild'
import { describe, expect, test } from 'vitest'
import { lintCourse } from '../../course/lint/lint-course.ts'
import { newFolder, scaffold } from '../../course/lint/scaffold.ts'
import { parseLab } from '../../grading/lab-definition.ts'
import { goodCourse, madeLab } from './made-course.ts'

const folder = '09-packet-captures'
const files = scaffold(folder)
const made = {
  folder,
  solution: { steps: { web: { commands: ['make web'] } }, reset: async () => undefined },
  unloadable: [],
  sources: files,
}

describe('a new lab', () => {
  test('has the files that a lab needs, and they can be read', async () => {
    expect(Object.keys(files)).toEqual([
      `labs/${folder}/lab.yaml`,
      `labs/${folder}/README.md`,
      `labs/${folder}/CARD.md`,
      `labs/${folder}/solution.ts`,
      `checks/${folder}.check.ts`,
      'test/labs/lab-9-text.test.ts',
    ])
    expect(
      parseLab(files[`labs/${folder}/lab.yaml`] ?? '', 'lab.yaml').steps.map(({ id }) => id),
    ).toEqual(['web'])
    for (const [path, text] of Object.entries(files))
      if (path.endsWith('.ts'))
        await expect(transform(text, { loader: 'ts' })).resolves.toBeTruthy()
  })

  test('fails the linter in each file until that is written', () => {
    const complaints = lintCourse({ ...goodCourse(), labs: [madeLab(), made] }).map(
      ({ file }) => file.split(':')[0],
    )
    expect(complaints).toEqual(
      expect.arrayContaining([
        ...Object.keys(files).filter((path) => !path.startsWith('test/')),
        'labs/claims.yaml',
        'README.md',
      ]),
    )
  })

  test('is numbered after the last one, or has the chosen number', () => {
    expect(newFolder('packet-captures', ['01-a', '08-b'])).toBe('09-packet-captures')
    expect(newFolder('06-scale', ['01-a', '08-b'])).toBe('06-scale')
    expect(newFolder('first', [])).toBe('01-first')
  })

  test.each([
    ['', 'is not a valid name'],
    ['Packet Captures', 'is not a valid name'],
    ['../../etc', 'is not a valid name'],
    ['a/b', 'is not a valid name'],
    ['x'.repeat(40), 'is not a valid name'],
    ['08-other', 'labs/08-b already has the number 8'],
    ['00-none', 'no lab number "0"'],
  ])('cannot be called "%s"', (name, sentence) => {
    expect(() => newFolder(name, ['01-a', '08-b'])).toThrow(sentence)
  })

  test('is refused when no number is left', () => {
    expect(() => newFolder('one-more', ['99-last'])).toThrow('labs are 01 to 99')
  })
})
