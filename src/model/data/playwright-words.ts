/** Vocabulary and sentence patterns of the built-in corpus generator. */

const words = (text: string): readonly string[] => text.trim().split(/\s+/);

export type Rank = 'ruler' | 'lord' | 'lady' | 'low';

/** Character names by rank. The lowest rank speaks prose, the others verse. */
export const cast: Readonly<Record<Rank, readonly string[]>> = {
  ruler: words('ALDREMAR OSWENNA TERVANE MIRABETH'),
  lord: words(`CORVENNE HALDRIC MELVANDER ORSWIN PERRAULD QUILLON RAVENSHAW SELDOMER THORNEBY
    VALENCOR WYSTAN BERENGAR DUNMORROW ESTORAN FENWALD GALLOWAN`),
  lady: words(`ADELINE BRISA CORDUELLA ELSPETH FIORENNA HELEWYS ISAURA LUNETTA MARDELLA NERISENE
    ROSALBA SIBELLE YVAINE`),
  low: words('BODKIN CRUMPET GRIMBLE MUGWORT PEASCOD TATTER THIMBLE WATKIN DOLLOP HOBNAIL'),
};

export const places =
  words(`Aldermere Brackenfold Calvesport Dornwater Eastmarch Fallowmoor Gravenna
  Hartspool Illmarsh Kestrelby Lorrendale Marrowgate Nethercombe Oxmere Pellimore Rushwater Saltern
  Tyrwold Umberlee Vexholm Wintermarch`);

/** Topic nouns; each scene uses one topic. */
export const themes: readonly (readonly string[])[] = [
  words(`ship sail anchor tide harbour wave storm mast oar pilot island shore deck voyage wreck gull
    rope lantern cargo haven current rudder hull fog`),
  words(`sword banner drum captain wound siege wall trench arrow shield spear army camp trumpet
    horse field soldier helmet truce ambush tower victory blade gate`),
  words(`crown throne council sceptre court seal decree minister tax envoy heir treaty province
    ruler herald oath traitor chamber signet subject palace reign letter favour`),
  words(`heart kiss sigh lover vow ring letter eye cheek lip bride maiden garland dance sonnet jewel
    window whisper blush garden embrace promise mirror glove`),
  words(`harvest plough orchard barn seed furrow apple shepherd flock meadow hedge miller loaf vine
    sickle acre rain cow basket well spring nest root honeycomb`),
  words(`night star moon owl shadow dream candle midnight ghost bell cloud comet darkness silence
    graveyard mist raven hearth sleep watchman dawn pillow curtain flame`),
  words(`judge law prison gallows witness verdict thief chain jury pardon plea debt bond fine
    penalty crime statute jailer warrant guilt mercy sentence purse confession`),
  words(`feast goblet cook table minstrel song jest barrel pie candle fiddle guest steward cup
    kitchen spoon supper tavern goose kettle riddle cloak penny ballad`),
  words(`letter book scholar riddle candle star map glass lesson quill page physician herb
    remedy fever planet number proof wisdom cure potion school reason library`),
];

export const abstracts = words(`love honour sorrow fortune time death hope envy patience grief pride
  justice memory fear courage nature virtue beauty peace treason faith hunger anger joy duty truth
  silence ambition age youth shame courtesy folly despair thrift rumour`);

export const adjectives =
  words(`sweet bitter gentle proud noble cold bright weary faithful cruel pale golden silent
    hollow humble bold cunning ancient broken idle heavy tender foolish secret bloody honest
    hasty lonely royal crooked merry distant naked patient wicked empty stubborn fair crimson
    slender wretched dusty generous jealous fearful restless sober ragged holy mighty bashful
    ungrateful winter borrowed salt iron silver withered drowsy`);

export const transitives =
  words(`love keep follow betray forgive question bury praise serve banish hear
  carry wound teach mock guard remember forget summon trust curse bless deny obey conquer comfort
  measure answer purchase borrow scorn welcome awaken swallow hide seek honour poison mend abandon
  kindle chase lament envy steal break bear choose forsake know`);

export const intransitives =
  words(`weep sleep laugh wander tremble perish return sing fall rise burn listen kneel whisper
    fade linger hasten wait dance bleed starve repent speak stumble vanish depart`);

export const adverbs: readonly string[] = [
  ...words('softly gladly bravely alone truly swiftly tonight tomorrow again strangely sadly'),
  'too late',
  'in vain',
  'at dawn',
  'for ever',
  'by moonlight',
  'without shame',
  'once more',
];

/** Participles and plurals that the rules would get wrong. */
export const irregular: Readonly<Record<string, string>> = {
  keep: 'kept',
  betray: 'betrayed',
  hear: 'heard',
  teach: 'taught',
  forget: 'forgotten',
  forgive: 'forgiven',
  obey: 'obeyed',
  hide: 'hidden',
  seek: 'sought',
  steal: 'stolen',
  break: 'broken',
  bear: 'borne',
  choose: 'chosen',
  forsake: 'forsaken',
  know: 'known',
};

/** Grammar rules: each `{symbol}` is replaced by a random pattern of its list, early ones more often. */
export const patterns: Readonly<Record<string, readonly string[]>> = {
  thing: [
    'the {noun}',
    'my {noun}',
    'thy {noun}',
    'this {adjective} {noun}',
    'the {adjective} {noun}',
    'a {noun}',
    'our {noun}',
    'his {adjective} {noun}',
    'her {noun}',
    'the {noun} of {abstract}',
    'that {noun}',
    'some {adjective} {noun}',
    'every {noun}',
    'no {noun}',
    'a {adjective} {noun} of {place}',
  ],
  someone: ['{absent}', '{present}', 'thy brother', 'my sister', 'the old {noun}', 'his mother'],
  object: [
    '{thing}',
    '{thing}',
    'the {plural}',
    '{someone}',
    '{abstract}',
    'thee',
    'all my {plural}',
    'me',
  ],
  where: ['in {place}', 'upon the {noun}', 'beneath the {noun}', 'by the {noun}', 'from {place}'],
  clause: [
    '{thing} {transitives} {object}',
    'I {transitive} {object}',
    '{abstract} {intransitives}',
    '{someone} {transitives} {object}',
    'thou hast {participle} {object}',
    'we {transitive} {thing} {where}',
    '{thing} is {adjective}',
    'the {plural} {intransitive} {where}',
    'I have {participle} {object}',
    '{someone} doth {intransitive} {adverb}',
    '{abstract} is but {thing}',
    'there lies {thing} {where}',
  ],
  order: [
    '{transitive} {object}',
    'let {someone} {intransitive}',
    'speak not of {abstract}',
    'go, {transitive} {thing} {where}',
    'bring {thing} to {place}',
    '{intransitive} with me {where}',
    'bid {absent} {intransitive} {adverb}',
  ],
  question: [
    'Where is {someone}',
    'Who hath {participle} {object}',
    'What {noun} is this',
    'Dost thou {transitive} {object}',
    'Why should {thing} {intransitive} {adverb}',
    'Shall I {transitive} {object}',
    'Is {abstract} not {adjective}',
    'How long must {someone} {intransitive}',
    'What says {someone} of {thing}',
    'Came {absent} not {where}',
  ],
  statement: [
    '{clause}.',
    '{clause}, and {clause}.',
    '{clause}; yet {clause}.',
    'If {clause}, then {order}.',
    'When {clause}, {clause}.',
    '{clause}, for {clause}.',
    'I tell thee, {clause}.',
    'Though {clause}, {clause}.',
    'So {adjective} is {thing} that {clause}.',
    'I would that {clause}.',
    'As {thing} {transitives} {thing}, so {clause}.',
    'Not {thing} nor {thing} can {transitive} {object}.',
    'They say in {place} {clause}.',
  ],
  outcry: [
    'O {adjective} {noun}!',
    'Alas, {clause}!',
    'O {abstract}, thou {adjective} {noun}!',
    'By {thing}, {clause}!',
    'Out upon {abstract}!',
    'How {adjective} is {thing}!',
  ],
  sentence: ['{statement}', '{question}?', '{statement}', '{order}.', '{outcry}'],
  opening: [
    '{sentence}',
    '{question}?',
    '{address}, {clause}.',
    'Hark, {address}. {question}?',
    'Nay, {clause}.',
    'Ay, {address}, and {clause}.',
    '{outcry}',
    'Peace, {address}: {order}.',
    'No, not {thing}, {address}.',
    'I thank thee, {address}.',
    'What, {participle} {where}?',
    'Then {order}.',
  ],
  reply: [
    'It was {someone}, {address}.',
    'I know not, {address}; {clause}.',
    'Not I, but {someone}.',
    '{where}, {address}.',
    'Ask {absent}, who {transitives} {thing}.',
    'Because {clause}.',
  ],
  entrance: [
    'Welcome to {place}, {address}. What news of {absent}?',
    'So we are met in {place}. {sentence}',
    'Here in {place} {clause}. {question}?',
    'Stand, who comes to {place}? {sentence}',
  ],
  parting: [
    'Farewell, {address}; {clause}.',
    'Come, let us to {place}, where {clause}.',
    'Enough: {order}, and so to {place}.',
    'Away! {clause}.',
    'Exeunt all my {plural}; good night.',
  ],
};
