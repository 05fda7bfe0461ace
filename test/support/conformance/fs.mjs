// The conformance suite takes `globSync` from Node's `fs`, which Node 20 does not have, for a command that is not used
// here. `node --import ./fs.mjs …` gives its files an `fs` that has one.
import { register } from 'node:module';

const FS = `export * from 'node:fs'; export { default } from 'node:fs';
export const globSync = () => { throw new Error('this Node has no globSync'); };`;

const HOOKS = `export async function resolve(specifier, context, next) {
  if (specifier !== 'fs' || !context.parentURL?.includes('/@modelcontextprotocol/conformance/')) return next(specifier, context);
  return { url: ${JSON.stringify(`data:text/javascript,${encodeURIComponent(FS)}`)}, shortCircuit: true };
}`;

register(`data:text/javascript,${encodeURIComponent(HOOKS)}`);
