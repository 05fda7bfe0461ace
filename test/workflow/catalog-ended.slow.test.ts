/** A catalog that was terminated, by the command line: it is told as ended, and its settings can be brought back. */
import { expect, test } from '@jest/globals';
import { startCatalogWorld } from '../support/scenes/catalog-world.ts';
import { during } from '../support/world/during.ts';

const world = during(() => startCatalogWorld(['gone']));

test('a catalog that was terminated is shown as ended, and what it leads to brings back what was set', async () => {
  await world.json('connect gone --as ann');
  await world.json('deny gone pay --as ann');
  await world.terminate('gone');
  const way = 'countersign catalog export gone --tenant default > FILE';
  for (const verb of ['show', 'list']) {
    expect(await world.json(`${verb} gone`)).toMatchObject({ status: 'connected', ended: 'terminated' });
    expect((await world.cli(`catalog ${verb} gone`)).out).toContain(way);
  }
  const refusal = { code: 'CATALOG_VERSION_CONFLICT', message: expect.stringContaining(way) };
  expect(await world.refusal('disable gone lookup --as ann')).toMatchObject([5, refusal]);
  expect(await world.cli('recover catalog/default/gone')).toMatchObject({
    exitCode: 5,
    err: expect.stringContaining('countersign catalog connect gone --tenant default --as ID --anew'),
  });
  const file = (await world.cli('catalog export gone')).out;
  await world.json('connect gone --as ann --anew');
  await world.json('import - --as ann', file);
  expect(await world.tool('gone', 'pay')).toMatchObject({ setting: { denied: true } });
  expect(await world.json('show gone')).not.toHaveProperty('ended');
});
