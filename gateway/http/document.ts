/** Makes the OpenAPI document from the routes. */
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';

/** `fastify-type-provider-zod` names what refers to itself so, and leaves its definition out. */
const RECURSIVE = /^#\/components\/schemas\/schema\d+$/;
const ANY_JSON = '#/components/schemas/JsonValue';

export function documentOptions(version: string): FastifyDynamicSwaggerOptions {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Countersign gateway',
        description:
          'Start runs, see what waits, and answer. Errors are problem details (RFC 9457) with a code of docs/errors.',
        version,
      },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
      security: [{ bearer: [] }],
    },
    transform: jsonSchemaTransform,
    transformObject: (document) => ('openapiObject' in document ? withJsonValue(document.openapiObject) : {}),
  };
}

/** Of all schemas, that of any JSON value alone refers to itself (`JsonValue`). */
function withJsonValue<T extends { components?: object }>(document: T): T {
  // Sound: other texts are left as they are.
  const named = JSON.parse(JSON.stringify(document), (_key, value: unknown) =>
    typeof value === 'string' && RECURSIVE.test(value) ? ANY_JSON : value,
  ) as T;
  return { ...named, components: { ...named.components, schemas: { JsonValue: { description: 'Any JSON value' } } } };
}
