/** The OpenAPI document stands by itself: programs that make clients from it find every schema that it names. */
import { expect, test } from '@jest/globals';
import { GatewayConfig } from '../../../contracts/schemas/gateway.ts';
import { openApiDocument } from '../../../gateway/gateway.ts';

test('every reference leads to a schema of the document, and every schema is named by something', async () => {
  const document = await openApiDocument(GatewayConfig.parse({}));
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(
    ([, reference = '']) => reference,
  );
  // Sound: documents of this gateway have components.
  const { schemas } = (document as { components: { schemas: Record<string, unknown> } }).components;
  const known = Object.keys(schemas).map((name) => `#/components/schemas/${name}`);
  expect(references.filter((reference) => !known.includes(reference))).toEqual([]);
  expect(known.filter((name) => !references.includes(name))).toEqual([]);
});
