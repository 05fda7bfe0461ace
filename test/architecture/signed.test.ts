// In trust mode `signed` no message counts unproven (INV-G2): a handler that is added later must not be the way around
// it.
import { expect, test } from '@jest/globals';
import { changed, removed, replaced } from '../replay/change.ts';
import { found, listOf, nameOf, product, treeOf, within } from '../support/syntax.ts';

/** A dispatch sends it and has no key: it shows a question, and the answer is proven where it was asked (docs/adr/0040). */
const DISPATCHED = 'UPDATES.inputAsked';
/** A gateway sends it for a client that is there: it lets leave what was approved, and gives no right (docs/adr/0078). */
const PRESENT = 'SIGNALS.present';

/** Whoever may write to the namespace can send it to a digest: it says where to look, and the run is asked (docs/adr/0086). */
const GATHER = 'SIGNALS.gather';

/** Registers every update of runs and catalogs. */
const KIT = 'workflows/entity/entity.ts';

/** Functions that are called, in their order, each followed once by those that it calls in the same module. */
function callsIn(node: unknown, module: unknown, known = new Set<string>()): readonly string[] {
  const calls = within(node).filter((each) => treeOf(each)['type'] === 'CallExpression');
  const names = [nameOf(node), ...calls.map((each) => nameOf(treeOf(each)['callee']))];
  return names.flatMap((name) => {
    if (name === '' || known.has(name)) return [name];
    known.add(name);
    return [name, ...callsIn(named(name, module), module, known)];
  });
}

function named(name: string, module: unknown): readonly unknown[] {
  return within(module).filter((each) => {
    const { type, identifier, id } = treeOf(each);
    return (type === 'FunctionDeclaration' || type === 'VariableDeclarator') && nameOf(identifier ?? id) === name;
  });
}

interface Taken {
  readonly what: string;
  readonly isProven: boolean;
}

/** Updates and signals that bring something. Queries change nothing, and those without an input say nothing. */
function taken(sources = product()): readonly Taken[] {
  const updates = found('onUpdate($live, $what, $taking)', undefined, sources).map(({ module, holes }) => {
    const [read, check] = ['read', 'check'].map((name) => propertyOf(holes.get('$taking'), name));
    return { what: whatOf(holes.get('$what')), read, judge: check, module };
  });
  // A signal has no validator.
  const others = found('setHandler($what, $handle, $$options)', undefined, sources)
    .filter(({ path }) => path !== KIT)
    .map(({ module, holes }) => {
      const handle = holes.get('$handle');
      return { what: whatOf(holes.get('$what')), read: handle, judge: handle, module };
    });
  return [...updates, ...others].flatMap(({ what, read, judge, module }) => {
    const isSilent = nameOf(read) === '' && listOf(treeOf(read)['params']).length === 0;
    const isOfNobody = what === DISPATCHED || what === PRESENT || what === GATHER;
    if (what.startsWith('QUERIES.') || isOfNobody || isSilent) return [];
    const [first] = callsIn(judge, module).filter((name) =>
      /^(?:assertSigned|refuseUnsigned|admit|repeated)/.test(name),
    );
    const isVerified = first?.startsWith('assertSigned') === true || first === 'refuseUnsigned';
    return { what, isProven: isVerified && callsIn(read, module).some((name) => name.startsWith('opened')) };
  });
}

/** `SIGNALS.decide`, also of `defineSignal(SIGNALS.decide)`; a name that was handed on as it is called there. */
function whatOf(node: unknown): string {
  const { type, arguments: given, object, property } = treeOf(node);
  if (type === 'CallExpression') return whatOf(treeOf(listOf(given)[0])['expression']);
  return type === 'MemberExpression' ? `${nameOf(object)}.${nameOf(property)}` : nameOf(node);
}

function propertyOf(object: unknown, name: string): unknown {
  const property = listOf(treeOf(object)['properties']).find((each) => nameOf(treeOf(each)['key']) === name);
  return treeOf(property)['value'];
}

test('each verifies its signature before it admits it, and its handler takes the signature off', () => {
  const all = taken();
  // Runs register all answers in one way, and catalogs all changes.
  const whats = ['SIGNALS.decide', 'UPDATES.say', 'UPDATES.stop', 'UPDATES.forget', 'UPDATES.', 'name'];
  expect(all.map(({ what }) => what).toSorted()).toEqual(whats.toSorted());
  expect(all.filter(({ isProven }) => !isProven)).toEqual([]);
});

test('each kind of answer is served in that one way, whose handler proves it again', () => {
  const served = found('serve(live, $kind)', 'serveAnswers').map(({ holes }) => nameOf(holes.get('$kind')));
  expect(served.toSorted()).toEqual(['AUTHORIZE', 'DECIDE', 'PROVIDE', 'RESOLVE']);
  expect(found('refuseWith(refuseUnproven(live, purpose, answer))', 'serve')).toHaveLength(1);
});

test('the kit that registers updates checks each in its validator', () => {
  expect(found('check?.(read($input), $input)', 'onUpdate').map(({ path }) => path)).toEqual([KIT]);
});

test.each([
  ['UPDATES.say', removed('registerHandlers', "assertSigned($_, 'say', $$);")],
  [
    'UPDATES.say',
    replaced('registerHandlers', "parsed(opened($_, $_, parseSay), 'MESSAGE_INVALID')", 'parseSay(input)'),
  ],
  ['SIGNALS.decide', replaced('decideBySignal', 'refuseUnsigned($$)', 'undefined')],
  ['UPDATES.', replaced('serve', 'assertSignedAnswer($$)', 'undefined')],
  ['name', removed('register', 'assertSignedChange($$);')],
])('control: where %s goes around it, that is noticed', (what, change) => {
  const unproven = taken(new Map([...product(), changed(change)])).filter(({ isProven }) => !isProven);
  expect(unproven.map((each) => each.what)).toEqual([what]);
});
