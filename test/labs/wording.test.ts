// Sentences that were wrong once, in any text that a learner or an instructor reads: labs, hints,
// cards, slides, claims, debriefs, answers and documents. What is true instead is proved where the
// comment says.

import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { projectRoot } from '../../host/layout.ts'

const FOLDERS = [
  'labs',
  'checks',
  'slides',
  'docs',
  'course',
  'guide/page',
  'dataplane/view',
  'dataplane/migration',
]
const files = [
  'README.md',
  'INSTRUCTORS.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(join(projectRoot, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(?:md|yaml|tsx?)$/.test(file))
      .map((file) => join(folder, file)),
  ),
]
/** Each text on one line: sentences are wrapped. */
const texts = files.map((file) => ({
  file,
  text: readFileSync(join(projectRoot, file), 'utf8').replaceAll(/\s+/g, ' '),
}))

const WRONG: readonly [what: string, sentence: RegExp, asItStood: string][] = [
  // lab-1.test.ts (a deleted rule outlives syncs); in IPVS mode it depends on the version
  // (versions.test.ts, ipvsHourlyResync).
  [
    'kube-proxy restores what was deleted within 30 seconds in every version',
    /\b(?:restores?|adds?|writes?|inserts?|corrects?)\b[^.;]{0,60}?(?<!usually )\b(?:within|in) (?:30|thirty) seconds/i,
    'kube-proxy restores a missing one within 30 seconds.',
  ],
  // lab-4.test.ts (short-requests): sed and nq send them all to one server.
  [
    'sed or nq for machines that differ',
    /\b(?:sed|nq)\b[^.|]{0,40}(?:machines differ|like `?rr)/i,
    '`sed` or `nq` if machines differ',
  ],
  // lab-2.test.ts (an old REJECT rule).
  [
    'old REJECT rules reject a Service permanently',
    /reject(?:s|ed)? (?:it )?permanently/i,
    'an old rule rejects it permanently',
  ],
  // lab-2.test.ts (requests never pass FORWARD, replies do; a node's own packet is taken at
  // LOCAL_OUT).
  [
    'no packet of a Service passes FORWARD in IPVS mode',
    /FORWARD (?:is never passed|sees nothing)|IPVS has functions at two hooks/i,
    'FORWARD is never passed: rules for Pod traffic',
  ],
  [
    "a node's own packet passes INPUT before IPVS",
    /passes INPUT and OUTPUT/,
    'It passes INPUT and OUTPUT.',
  ],
  // lab-1.test.ts, lab-2.test.ts (martian): the request is dropped, no reply is.
  [
    'a hairpin reply is dropped',
    /would (?:reply|answer) to itself/i,
    'the Pod would reply to itself',
  ],
  // debriefs.test.ts (source-ranges): ranges hold for Pods, too.
  ['Pods bypass source ranges', /shorter path/i, 'Pods take a shorter path past the ranges'],
  // The pull requests are named in lab 7.
  [
    'nftables mode does without the nft command',
    /without (?:the )?`?nft`? command/i,
    'reads its tables without the nft command',
  ],
  [
    'IPVS mode is removed in 1.40',
    /1\.40[^.|,]{0,40}\b(?:removes?|removed|gone)\b/i,
    '1.40: IPVS mode is removed',
  ],
  [
    'all filter chains of nftables mode moved',
    /all (?:the )?filter chains/i,
    'all filter chains come after the translation',
  ],
  // lab-1.test.ts, recordings x-itp-local-terminating-only: a Pod that terminates and serves is
  // used.
  ['policy Local loses a Pod that terminates', /weak point/i, 'the weak point of Local'],
  // Lab 6: only iptables-legacy replaces a table.
  [
    'every iptables replaces a whole table',
    /\biptables (?:reads|writes|replaces) [^.|]{0,30}(?:whole )?table/i,
    'iptables reads a whole table and writes it back',
  ],
  [
    'Linux 2.4 took packets before INPUT',
    /2\.4[^.]{0,60}before (?:packet )?filter/i,
    'In Linux 2.4 it took packets before packet filtering',
  ],
  [
    'in old diagrams IPVS bypasses INPUT',
    /bypass(?:es)? INPUT/i,
    "In old diagrams IPVS bypasses INPUT's rules",
  ],
  // lab-1.test.ts (rejected): ICMP comes back at once.
  ['a rejection takes a second', /(?:a|one) second later/i, 'the client notices a second later'],
  [
    'an EndpointSlice lists ready Pods only',
    /EndpointSlices? lists? (?:the |only )?"?ready"? Pods/i,
    'An EndpointSlice lists the ready Pods',
  ],
  // lab-1.test.ts (a node's own request needs a route): the node's own packet is routed before
  // OUTPUT, too.
  [
    'only packets that enter are routed',
    /routing decision \|(?![^|]*OUTPUT)[^|]*\|/i,
    '| routing decision | the choice between delivering a packet to the node (INPUT) and forwarding it (FORWARD) | 1 |',
  ],
  [
    'a packet of the node is first routed after OUTPUT',
    /PREROUTING or OUTPUT[^.]*\.\s+In between is the routing decision/i,
    'A packet enters at PREROUTING or OUTPUT and leaves at POSTROUTING. In between is the routing decision',
  ],
  ['nftables mode runs on kind only', /nftables mode on kind only/i, 'nftables mode on kind only'],
  [
    'a shrinking mh table moves only its own clients',
    /(?<!nearly )only its own clients move\b/i,
    'only its own clients move',
  ],
]

test('every kind of text is read', () => {
  expect(files.length).toBeGreaterThan(150)
  for (const file of ['labs/11-which-pod/CARD.md', 'slides/02-ipvs.md', 'labs/GLOSSARY.md'])
    expect(files).toContain(file)
})

test.each(WRONG)('no text says that %s', (_, sentence, asItStood) => {
  expect(asItStood).toMatch(sentence)
  const found = texts.flatMap(({ file, text }) => {
    const match = sentence.exec(text)
    return match ? [`${file}: ${match[0]}`] : []
  })
  expect(found).toEqual([])
})
