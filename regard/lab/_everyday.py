"""Everyday sentences in French and English, for experiments that look at a translator and have no data set at hand."""

from __future__ import annotations

Pair = tuple[str, str]

TESTED: tuple[Pair, ...] = (
    ("Bonjour, comment allez-vous ?", "Hello, how are you?"),
    ("Je suis étudiant.", "I'm a student."),
    ("Jane visite l'Afrique en septembre.", "Jane visits Africa in September."),
    ("Voulez-vous chanter avec moi ?", "Do you want to sing with me?"),
    ("Où est la gare, s'il vous plaît ?", "Where is the station, please?"),
    ("Je voudrais un café et un croissant.", "I'd like a coffee and a croissant."),
    ("Quelle heure est-il ?", "What time is it?"),
    ("Il fait très froid aujourd'hui.", "It's very cold today."),
    ("Mon frère habite à Paris depuis trois ans.", "My brother has been living in Paris for three years."),
    ("Je ne comprends pas ce que vous dites.", "I don't understand what you're saying."),
    ("Elle a oublié ses clés dans la voiture.", "She forgot her keys in the car."),
    ("Nous allons au cinéma ce soir.", "We're going to the movies tonight."),
    ("Combien coûte ce livre ?", "How much does this book cost?"),
    ("Le train part à huit heures et demie.", "The train leaves at half past eight."),
    ("Peux-tu m'aider à porter cette valise ?", "Can you help me carry this suitcase?"),
    ("J'ai mal à la tête depuis ce matin.", "I've had a headache since this morning."),
    ("Les enfants jouent dans le jardin.", "The children are playing in the garden."),
    ("Si j'avais su, je ne serais pas venu.", "If I had known, I wouldn't have come."),
    ("N'oublie pas d'acheter du pain en rentrant.", "Don't forget to buy some bread on your way home."),
    (
        "Le chat dort sur le canapé pendant que le chien regarde par la fenêtre.",
        "The cat is sleeping on the sofa while the dog is looking out of the window.",
    ),
)
"""Those of docs/everyday.fr.txt."""

OTHERS: tuple[Pair, ...] = (
    ("Il pleut depuis hier.", "It has been raining since yesterday."),
    ("Mes parents habitent à la campagne.", "My parents live in the country."),
    ("Tu devrais te reposer un peu.", "You should get some rest."),
    ("Elle parle trois langues.", "She speaks three languages."),
    ("Le magasin ferme à six heures.", "The shop closes at six."),
    ("Je n'ai pas vu ce film.", "I haven't seen that movie."),
    ("Pourquoi ne viens-tu pas avec nous ?", "Why don't you come with us?"),
    ("Il a perdu son parapluie dans le bus.", "He lost his umbrella on the bus."),
    ("Nous avons mangé du poisson hier soir.", "We ate fish last night."),
    ("La petite fille a peur du grand chien noir.", "The little girl is afraid of the big black dog."),
    ("Pouvez-vous parler plus lentement ?", "Can you speak more slowly?"),
    ("Je te le donnerai demain.", "I'll give it to you tomorrow."),
    ("Ils sont arrivés trop tard.", "They arrived too late."),
    ("Cette maison est plus vieille que la nôtre.", "This house is older than ours."),
    ("Qu'est-ce que tu fais ce week-end ?", "What are you doing this weekend?"),
    ("Mon père lit le journal tous les matins.", "My father reads the newspaper every morning."),
    ("Il n'y a plus de lait dans le frigo.", "There is no more milk in the fridge."),
    ("Elle m'a dit qu'elle était malade.", "She told me that she was sick."),
    ("Personne ne sait où il est allé.", "Nobody knows where he went."),
    ("J'aime me promener au bord de la mer.", "I like walking by the sea."),
    ("Ferme la porte quand tu pars.", "Close the door when you leave."),
    ("Le médecin lui a conseillé de ne pas fumer.", "The doctor advised him not to smoke."),
    ("Quand j'étais petit, je voulais être pompier.", "When I was little, I wanted to be a firefighter."),
    ("Il faut que nous partions tout de suite.", "We have to leave right away."),
)
"""To measure by, where what is tested must not be seen before."""
