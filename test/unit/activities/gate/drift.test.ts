/** What changed in a definition is told in one bounded line (F24). */
import { expect, test } from '@jest/globals';
import { describeDrift } from '../../../../activities/gate/dispatch-check.ts';
import { toolDefinition } from '../../../support/builders/tool.ts';

const HEAD = 'The definition of the tool is not the one that was shown';

test('field by field: what is new, what is gone, what is other', () => {
  const before = toolDefinition({ title: 'Write', annotations: { readOnlyHint: true } });
  const { title: _, ...now } = toolDefinition({ ...before, annotations: { readOnlyHint: false, openWorldHint: true } });
  expect(describeDrift(before, now)).toBe(
    `${HEAD}: annotations.openWorldHint is new: true; annotations.readOnlyHint was true, is false; title is gone, was "Write".`,
  );
});

test('long texts are cut and many fields are counted', () => {
  const properties = Object.fromEntries(Array.from({ length: 9 }, (_, index) => [`p${index}`, { type: 'string' }]));
  const now = toolDefinition({ description: 'x'.repeat(5_000), inputSchema: { type: 'object', properties } });
  const told = describeDrift(toolDefinition(), now);
  expect(told.length).toBeLessThan(2_000);
  expect(told).toMatch(/description was "Writes a file\.", is "x+… \(\d+ more characters\)/);
  expect(told).toMatch(/; and \d+ more fields\.$/);
});

test('where it is not known what was shown, it says no more', () => {
  expect(describeDrift(undefined, toolDefinition())).toBe(`${HEAD}.`);
});
