/** Serves the tools that the conformance suite's server scenarios call, under the names and with the answers that they ask for. */
import { acts, type Fields, type RawServer, startRawServer } from '../servers/raw-server.ts';

/** One black pixel. */
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==';
/** The head of a WAV file without sound. */
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';

const text = { type: 'text', text: 'This is a simple text response for testing.' };
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const audio = { type: 'audio', data: WAV, mimeType: 'audio/wav' };

function resource(mimeType: string, words: string): Fields {
  return { type: 'resource', resource: { uri: 'test://embedded-resource', mimeType, text: words } };
}

const ANSWERS: Readonly<Record<string, Fields>> = {
  test_simple_text: { content: [text] },
  test_image_content: { content: [image] },
  test_audio_content: { content: [audio] },
  test_embedded_resource: { content: [resource('text/plain', 'This is an embedded resource content.')] },
  test_multiple_content_types: {
    content: [
      { type: 'text', text: 'Multiple content types test:' },
      image,
      resource('application/json', '{"test":"data","value":123}'),
    ],
  },
  test_error_handling: {
    isError: true,
    content: [{ type: 'text', text: 'This tool intentionally returns an error for testing' }],
  },
};

const plain = { type: 'object', properties: {} } as const;

const TOOLS: readonly Fields[] = [
  ...Object.keys(ANSWERS).map((name) => ({ name, description: `Answers ${name}.`, inputSchema: plain })),
  {
    name: 'json_schema_2020_12_tool',
    description: 'Has a schema of JSON Schema 2020-12.',
    inputSchema: {
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'object',
      $defs: {
        address: {
          $anchor: 'addressDef',
          type: 'object',
          properties: { street: { type: 'string' }, city: { type: 'string' } },
        },
      },
      properties: {
        name: { type: 'string' },
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: { type: 'string' },
        email: { type: 'string' },
      },
      allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
      if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
      then: { required: ['phone'] },
      else: { required: ['email'] },
      additionalProperties: false,
    },
  },
];

export async function startFixtureServer(): Promise<RawServer> {
  return await startRawServer({
    era: 'modern',
    pages: [TOOLS],
    tools: Object.fromEntries(
      Object.entries(ANSWERS).map(([name, answer]) => [name, acts((exchange) => exchange.result(answer))]),
    ),
  });
}
