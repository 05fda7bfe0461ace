// The one list of test suites: jest's projects, `npm test` and the architecture test read it, so that no test file can
// lie where nothing runs it.

/**
 * @typedef {object} Suite
 * @property {string} name the jest project; also the folder under test/, except for `domain`, `slow`
 * @property {string} match glob of its test files, from the repository root
 * @property {'fast' | 'slow' | 'by hand'} pace `fast` runs in `npm test`, `slow` only in `npm run test:all`, and what
 *   is played by hand only where it is named
 * @property {boolean} needsEngine starts Temporal servers
 */

/** @type {readonly Suite[]} */
export const SUITES = [
  // By itself and with coverage: its own tests alone reach all of the domain.
  suite('domain', { needsEngine: false, match: 'test/unit/domain/**/!(*.slow).test.ts' }),
  suite('unit', { needsEngine: false, match: 'test/unit/!(domain)/**/!(*.slow).test.ts' }),
  suite('pins', { needsEngine: false }),
  suite('architecture', { needsEngine: false }),
  // These start processes or wait for time limits, so they are not for `npm run check`.
  suite('process', { needsEngine: false }),
  suite('conformance', { needsEngine: false }),
  suite('workflow', {}),
  suite('replay', {}),
  suite('fault', { pace: 'slow' }),
  // Any folder may hold tests too slow for `npm test`: they are named `<what>.slow.test.ts`.
  suite('slow', { pace: 'slow', match: 'test/**/*.slow.test.ts' }),
  suite('browser', { pace: 'slow' }),
  suite('drill', { pace: 'by hand' }),
];

/**
 * @param {string} name
 * @param {Partial<Suite>} traits
 * @returns {Suite}
 */
function suite(name, traits) {
  return {
    name,
    match: `test/${name}/**/!(*.slow).test.ts`,
    pace: 'fast',
    needsEngine: true,
    ...traits,
  };
}
