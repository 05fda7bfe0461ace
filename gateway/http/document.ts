/**
 * The OpenAPI document. Its schemas have the names of `contracts/schemas/`, so that clients that are made from it have
 * types with names that people know. What a caller sends has `Input` behind its name.
 */
import type { FastifyDynamicSwaggerOptions } from '@fastify/swagger';
import { createJsonSchemaTransform, createJsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { z } from 'zod';
import * as call from '../../contracts/schemas/call.ts';
import * as catalog from '../../contracts/schemas/catalog.ts';
import * as calls from '../../contracts/schemas/http/calls.ts';
import * as catalogs from '../../contracts/schemas/http/catalogs.ts';
import * as records from '../../contracts/schemas/http/records.ts';
import * as api from '../../contracts/schemas/http-api.ts';
import * as input from '../../contracts/schemas/input.ts';
import * as ledger from '../../contracts/schemas/ledger.ts';
import * as policy from '../../contracts/schemas/policy.ts';
import * as request from '../../contracts/schemas/request.ts';
import * as runSpec from '../../contracts/schemas/run-spec.ts';
import * as runState from '../../contracts/schemas/run-state.ts';
import * as tool from '../../contracts/schemas/tool.ts';
import * as transcript from '../../contracts/schemas/transcript.ts';

const MODULES = [
  call,
  catalog,
  input,
  ledger,
  policy,
  request,
  runSpec,
  runState,
  tool,
  transcript,
  api,
  calls,
  catalogs,
  records,
];

interface Document {
  readonly paths?: object;
  readonly components?: { readonly schemas?: Readonly<Record<string, unknown>> };
}

export function documentOf(version: string): FastifyDynamicSwaggerOptions {
  const named = { schemaRegistry: namedSchemas() };
  const withSchemas = createJsonSchemaTransformObject(named);
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Countersign gateway',
        description:
          'Start runs, see what waits for people, and answer. Errors are problem details (RFC 9457) with a code of docs/errors.',
        version,
      },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } } },
      security: [{ bearer: [] }],
    },
    transform: createJsonSchemaTransform(named),
    transformObject: (document) => withoutUnused(withJsonValue(withSchemas(document))),
  };
}

/** Parameters are named one by one: a document has no object for all of a path or query. */
const PARAMETERS = /(?:Path|Query)$/;

/** Objects and unions by the names of their exports; simple values are clearer where they are used. */
function namedSchemas(): z.core.$ZodRegistry<{ id?: string | undefined }> {
  const registry = z.registry<{ id?: string | undefined }>();
  for (const [id, schema] of MODULES.flatMap((module) => Object.entries<unknown>(module)))
    if (isNamed(schema) && !PARAMETERS.test(id) && !registry.has(schema)) registry.add(schema, { id });
  return registry;
}

function isNamed(schema: unknown): schema is z.ZodType {
  return schema instanceof z.ZodObject || schema instanceof z.ZodUnion || schema instanceof z.ZodDiscriminatedUnion;
}

/** `fastify-type-provider-zod` names so what refers to itself, and leaves its definition out. */
const RECURSIVE = /^#\/components\/schemas\/(?:__shared#\/\$defs\/)?schema\d+$/;

/** Only the schema of any JSON value refers to itself (`JsonValue` of `contracts/schemas/json.ts`). */
function withJsonValue<T extends Document>(document: T): T {
  // Sound: other texts are left as they are.
  const named = JSON.parse(JSON.stringify(document), (_key, value: unknown) =>
    typeof value === 'string' && RECURSIVE.test(value) ? '#/components/schemas/JsonValue' : value,
  ) as T;
  const schemas = { ...named.components?.schemas, JsonValue: { description: 'Any JSON value.' } };
  return { ...named, components: { ...named.components, schemas } };
}

/** Leaves out the schemas that no route leads to. */
function withoutUnused<T extends Document>(document: T): T {
  const all = document.components?.schemas ?? {};
  const used = new Set<string>();
  const left: unknown[] = [document.paths];
  while (left.length > 0)
    for (const [, name = ''] of JSON.stringify(left.pop() ?? {}).matchAll(/"#\/components\/schemas\/([^"]+)"/g))
      if (!used.has(name)) {
        used.add(name);
        left.push(all[name]);
      }
  const schemas = Object.fromEntries(Object.entries(all).filter(([name]) => used.has(name)));
  return { ...document, components: { ...document.components, schemas } };
}
